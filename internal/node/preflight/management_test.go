package preflight_test

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/preflight"
)

const docs = "../../../docs/"

// sizeFinding returns the text of the finding about too few management CPUs of a node, or "".
func sizeFinding(t *testing.T, good archive, isControlPlane bool, cpus string) string {
	t.Helper()
	a := maps.Clone(good)
	a["config"] = "apiVersion: config.cpupoold.io/v1alpha1\nkind: CPUPoolConfiguration\npartitions:\n- {type: management, cpus: \"" + cpus + "\"}\n"
	if isControlPlane {
		a["host/etc/kubernetes/manifests/kube-apiserver.yaml"] = "kind: Pod\n"
	}
	for _, f := range preflight.Run(t.Context(), a.host(), a.configuration()) {
		switch f.Check {
		case "pools-management":
			return f.Found
		case "configuration", "pools":
			t.Fatalf("management CPUs %s: %s", cpus, f)
		}
	}
	return ""
}

// TestManagementCPUs checks that the table of management CPUs in the documentation has the
// figures of the check.
func TestManagementCPUs(t *testing.T) {
	page, err := os.ReadFile(docs + "reference/management-cpus.md")
	if err != nil {
		t.Fatal(err)
	}
	good := readArchive(t, "testdata/good.txtar")
	rows := regexp.MustCompile(`(?m)^\| (control plane|worker)\b[^|]* \| (\d+) \|`).FindAllStringSubmatch(string(page), -1)
	seen := map[string]bool{}
	for _, row := range rows {
		role := row[1]
		advised, err := strconv.Atoi(row[2])
		if err != nil || advised < 2 {
			t.Fatalf("row %q: %d management CPUs, %v; want at least 2", row[0], advised, err)
		}
		seen[role] = true
		if found := sizeFinding(t, good, role == "control plane", fmt.Sprintf("0-%d", advised-1)); found != "" {
			t.Errorf("%s with the %d CPUs of the page: %s; want an empty string", role, advised, found)
		}
		want := fmt.Sprintf("advises at least %d hyperthreads", advised)
		if found := sizeFinding(t, good, role == "control plane", fmt.Sprintf("0-%d", advised-2)); !strings.Contains(found, want) {
			t.Errorf("%s with %d CPUs: finding %q; want one with %q", role, advised-1, found, want)
		}
	}
	if len(rows) < 3 || !seen["control plane"] || !seen["worker"] {
		t.Errorf("%d rows for the roles %v; want a control plane, a single node and a worker", len(rows), seen)
	}
}

// TestGuidesManagementCPUs checks that the check accepts the management pools of the guides for
// control planes.
func TestGuidesManagementCPUs(t *testing.T) {
	good := readArchive(t, "testdata/good.txtar")
	table := regexp.MustCompile("(?m)^\\| \\d[^|]* CPUs[^|]* \\| `([^`]+)` \\|")
	configured := regexp.MustCompile(`(?:- name: (\S+)\n(?:.*\n){2} *)?[^\n]*type: management[,\n] *cpus: ([^,\s]+)`)
	for file, want := range map[string]int{"how-to/install/single-node.md": 5, "how-to/install/high-availability.md": 3} {
		page, err := os.ReadFile(docs + file)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		accepts := func(isControlPlane bool, cpus string) {
			t.Helper()
			found++
			if finding := sizeFinding(t, good, isControlPlane, cpus); finding != "" {
				t.Errorf("%s: management CPUs %s: %s; want an empty string", file, cpus, finding)
			}
		}
		for _, row := range table.FindAllStringSubmatch(string(page), -1) {
			accepts(true, row[1])
		}
		for _, m := range configured.FindAllStringSubmatch(string(page), -1) {
			accepts(m[1] != "worker", m[2])
		}
		if found != want {
			t.Errorf("%s has %d management pools; want %d", file, found, want)
		}
	}
}
