package simulate_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/plugin/simulate"
)

var update = flag.Bool("update", false, "rewrite the expected results in testdata")

// TestClaims runs the allocator of Kubernetes and the planner on ResourceClaims. Each file of
// testdata/claims has a machine, a configuration, objects and maybe a trace.
func TestClaims(t *testing.T) {
	files, err := filepath.Glob("testdata/claims/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			parts := make(map[string]string)
			for _, f := range archive.Files {
				parts[f.Name] = string(f.Data)
			}
			got := scenario(t, parts)
			if *update {
				archive.Files[len(archive.Files)-1].Data = []byte(got)
				if err := os.WriteFile(file, txtar.Format(archive), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(parts["want"], got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// scenario returns the claims, places and refusals of all nodes.
func scenario(t *testing.T, parts map[string]string) string {
	t.Helper()
	var all simulate.Objects
	for _, err := range all.Read("objects.yaml", []byte(parts["objects.yaml"]), "default") {
		t.Fatal(err)
	}
	names := all.Names()
	if len(names) == 0 {
		names = []string{""}
	}
	var out strings.Builder
	for _, node := range names {
		if len(names) > 1 {
			fmt.Fprintf(&out, "node %s\n", node)
		}
		d := onNode(t, parts, &all, node)
		for _, s := range d.Steps {
			fmt.Fprintf(&out, "%s %s: %d pods, refused %v\n", s.At, s.Event, s.Pods, s.Refused)
		}
		for _, a := range d.Allocations {
			fmt.Fprintf(&out, "%s %s: %s/%s, %d CPUs %s, pod %s %v admin=%t\n", a.Claim, a.Request, a.Driver, a.Device, a.Count, a.CPUs, a.Pod, a.Containers, a.AdminAccess)
		}
		for _, c := range d.Claims {
			fmt.Fprintf(&out, "%s has %s of pod %s for %v: %s\n", c.Full(), c.CPUs, c.Pod, c.Containers, c.Reason)
		}
		for _, c := range d.Containers {
			fmt.Fprintf(&out, "%s: %s %s %s exclusive=%t\n", c.Full(), c.Pool, c.CPUs, c.Code, c.Exclusive)
		}
		for _, r := range d.Refused {
			fmt.Fprintf(&out, "refused: %s; %s [%s, %s]\n", r.String(), r.Then, r.Since, r.Until)
		}
		for _, note := range d.Notes {
			fmt.Fprintf(&out, "note: %s\n", note)
		}
	}
	return out.String()
}

// onNode simulates one node of a scenario.
func onNode(t *testing.T, parts map[string]string, all *simulate.Objects, node string) *simulate.Document {
	t.Helper()
	m, err := simulate.Describe(strings.TrimSpace(parts["machine"]))
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Parse([]byte(parts["config.yaml"]), "config.yaml", config.Overrides{}, m)
	if err != nil {
		t.Fatal(err)
	}
	o, err := all.On(node)
	if err != nil {
		t.Fatal(err)
	}
	events, err := simulate.ParseTrace([]byte(parts["trace.jsonl"]), "default")
	if err != nil {
		t.Fatal(err)
	}
	n, err := simulate.NewNode(c, m, o.Namespaces)
	if err != nil {
		t.Fatal(err)
	}
	steps, err := n.Run(o, events)
	if err != nil {
		t.Fatal(err)
	}
	d := n.Document("config.yaml")
	d.Steps = steps
	return d
}
