package preflight_test

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/preflight"
	"github.com/cpupoold/cpupoold/internal/testing/reference"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

var update = flag.Bool("update", false, "rewrite the expected findings in testdata/cases")

func TestGoodHost(t *testing.T) {
	good := readArchive(t, "testdata/good.txtar")
	if got := preflight.Run(t.Context(), good.host(), good.configuration()); len(got) > 0 {
		t.Errorf("findings on the good host:\n%s", render(got))
	}
}

// TestGivenTopology checks that a given topology is not read again: it can have thousands of CPUs.
func TestGivenTopology(t *testing.T) {
	good := readArchive(t, "testdata/good.txtar")
	sys, err := fs.Sub(good.root(), "sys")
	if err != nil {
		t.Fatal(err)
	}
	top, err := topology.Read(sys)
	if err != nil {
		t.Fatal(err)
	}
	for file := range good {
		if strings.HasPrefix(file, "host/sys/devices/system/cpu/cpu") {
			delete(good, file)
		}
	}
	host := good.host()
	if got := preflight.Run(t.Context(), host, good.configuration()); len(got) == 0 {
		t.Error("no findings on a host without the files of a CPU")
	}
	host.Topology = top
	if got := preflight.Run(t.Context(), host, good.configuration()); len(got) > 0 {
		t.Errorf("findings with the topology:\n%s", render(got))
	}
}

// TestCases runs every host in testdata/cases: the good host with the files of the case
// changed or removed. The file "want" holds all findings. Cases with the prefix "good-" have
// no findings.
func TestCases(t *testing.T) {
	good := readArchive(t, "testdata/good.txtar")
	for _, name := range caseFiles(t) {
		t.Run(caseName(name), func(t *testing.T) {
			change := readArchive(t, name)
			a := good.changed(t, change)
			got := render(preflight.Run(t.Context(), a.host(), a.configuration()))
			if *update {
				rewrite(t, name, got)
				return
			}
			if diff := cmp.Diff(change["want"], got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			if isGood := strings.HasPrefix(caseName(name), "good-"); isGood != (got == "") {
				t.Errorf("good by name: %t, but findings are:\n%s", isGood, got)
			}
		})
	}
}

// TestEveryCheckHasACase checks that each check reports a finding in at least one case.
func TestEveryCheckHasACase(t *testing.T) {
	found := make(map[string]bool)
	for _, name := range caseFiles(t) {
		for line := range strings.Lines(readArchive(t, name)["want"]) {
			found[strings.Fields(line)[1]] = true
		}
	}
	for _, check := range preflight.CheckNames() {
		if !found[check+":"] {
			t.Errorf("no case in testdata/cases in which %s finds something", check)
		}
	}
}

// TestExamples checks that the example of each check on the page of the codes is a finding of a case.
func TestExamples(t *testing.T) {
	var all strings.Builder
	for _, name := range caseFiles(t) {
		all.WriteString(readArchive(t, name)["want"])
	}
	examples, err := reference.Codes("../../../docs/reference/problem-codes.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, check := range preflight.CheckNames() {
		if !strings.Contains(all.String(), " "+check+": "+examples[check]+"\n") {
			t.Errorf("no case has the finding of the example of %s: %s", check, examples[check])
		}
	}
}

// TestDistributions checks that the page of the distributions names each case of a distribution, and
// no case that does not exist.
func TestDistributions(t *testing.T) {
	page, err := os.ReadFile("../../../docs/reference/distributions.md")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, name := range caseFiles(t) {
		if name = caseName(name); strings.HasPrefix(strings.TrimPrefix(name, "good-"), "dist-") {
			want = append(want, "`"+name+"`")
		}
	}
	got := regexp.MustCompile("`(good-)?dist-[^`]*`").FindAllString(string(page), -1)
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("cases on the page (-want +got):\n%s", diff)
	}
}

// TestIndependentFindings combines the faults of several cases. It checks that no finding
// hides an independent one.
func TestIndependentFindings(t *testing.T) {
	a := readArchive(t, "testdata/good.txtar")
	var want []string
	for _, name := range []string{"kubelet-static-state", "runtime-none", "split-core", "no-psi", "run-dir"} {
		change := readArchive(t, filepath.Join("testdata", "cases", name+".txtar"))
		want = append(want, slices.Collect(strings.Lines(change["want"]))...)
		delete(change, "want")
		a = a.changed(t, change)
	}
	got := slices.Collect(strings.Lines(render(preflight.Run(t.Context(), a.host(), a.configuration()))))
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("missing in the combination: %s", line)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d findings, want %d:\n%s", len(got), len(want), strings.Join(got, ""))
	}
}

// TestNoFile checks that the findings without a configuration file name the default values.
func TestNoFile(t *testing.T) {
	good := readArchive(t, "testdata/good.txtar")
	a := good.changed(t, readArchive(t, "testdata/cases/runtime-none.txtar"))
	c := config.Default()
	got := preflight.Run(t.Context(), a.host(), preflight.Configuration{Config: &c})
	const want = "info configuration: defaults: no configuration file was read, and the default values put all CPUs into the shared pool: name the file of the node with --config\n"
	if len(got) != 2 || got[0].Subject != "defaults: containerRuntimeEndpoint" || render(got[1:]) != want {
		t.Errorf("findings without a file:\n%s\nwant one about the runtime, then %s", render(got), want)
	}
}

func TestRefusals(t *testing.T) {
	findings := []preflight.Finding{
		{Check: "a", Severity: preflight.Refuse},
		{Check: "b", Severity: preflight.Error},
		{Check: "c", Severity: preflight.Refuse},
	}
	got := preflight.Refusals(findings)
	want := []preflight.Finding{findings[0], findings[2]}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("refusals (-want +got):\n%s", diff)
	}
}

func TestSeverityText(t *testing.T) {
	for _, s := range []preflight.Severity{preflight.Info, preflight.Warning, preflight.Error, preflight.Refuse} {
		text, err := s.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var back preflight.Severity
		if err := back.UnmarshalText(text); err != nil || back != s {
			t.Errorf("%s is parsed as %s, %v", s, back, err)
		}
	}
	if err := new(preflight.Severity).UnmarshalText([]byte("fatal")); err == nil {
		t.Error("severity fatal was accepted")
	}
}

func render(findings []preflight.Finding) string {
	var b strings.Builder
	for _, f := range findings {
		fmt.Fprintf(&b, "%s %s: %s\n", f.Severity, f.Check, f)
	}
	return b.String()
}

func caseFiles(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob("testdata/cases/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatalf("cases: %v, %v", names, err)
	}
	return names
}

func caseName(file string) string { return strings.TrimSuffix(filepath.Base(file), ".txtar") }

func rewrite(t *testing.T, name, want string) {
	t.Helper()
	ar, err := txtar.ParseFile(name)
	if err != nil {
		t.Fatal(err)
	}
	ar.Files = slices.DeleteFunc(ar.Files, func(f txtar.File) bool { return f.Name == "want" })
	if want != "" {
		ar.Files = append(ar.Files, txtar.File{Name: "want", Data: []byte(want)})
	}
	if err := os.WriteFile(name, txtar.Format(ar), 0o644); err != nil {
		t.Fatal(err)
	}
}
