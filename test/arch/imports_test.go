package arch_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

const module = "github.com/cpupoold/cpupoold/"

// arrows says for each package what it may import of this module. A package
// that is not here may not exist: say first where it belongs.
func arrows() map[string][]string {
	return map[string][]string{
		"pkg/cpuset":   nil,
		"pkg/workload": nil,
		"pkg/topology": {"pkg/cpuset"},
		"pkg/cgroup":   {"pkg/cpuset"},
		"pkg/cri":      {"internal/localgrpc", "pkg/cpuset"},

		"pkg/nri":          {"pkg/cpuset", "pkg/cri"},
		"pkg/podresources": {"internal/localgrpc", "pkg/cpuset"},

		"pkg/allocate": {"pkg/cpuset", "pkg/topology"},
		"pkg/pools":    {"pkg/allocate", "pkg/cpuset", "pkg/topology", "pkg/workload"},
		"pkg/defrag":   {"pkg/allocate", "pkg/cpuset", "pkg/pools", "pkg/topology"},

		"internal/localgrpc": nil,
		"internal/layout":    nil,
		"internal/simulate":  {"internal/admission", "internal/config", "internal/inspect", "internal/manifest", "pkg/allocate", "pkg/cpuset", "pkg/pools", "pkg/topology", "pkg/workload"},
		"internal/admission": {"pkg/workload"},
		"internal/manifest":  nil,
		"internal/adopt":     {"internal/admission"},
		"internal/migrate":   {"internal/config", "pkg/allocate", "pkg/cpuset", "pkg/pools", "pkg/topology", "pkg/workload"},
		"internal/lint":      {"internal/admission", "internal/adopt", "internal/lint", "internal/manifest", "pkg/workload"},
		"internal/config":    {"pkg/allocate", "pkg/cpuset", "pkg/pools", "pkg/topology", "pkg/workload"},
		"internal/telemetry": {"pkg/cpuset"},
		"internal/host":      {"pkg/cgroup", "pkg/cpuset"},
		"internal/managers":  nil,
		"internal/preflight": {"pkg/...", "internal/config", "internal/host", "internal/managers"},
		"internal/testnode":  {"pkg/...", "internal/testnode"},
		"internal/manpages":  nil,
		"internal/reference": nil,
		"internal/appcpus":   {"pkg/cpuset"},
		"internal/control":   {"internal/history", "internal/inspect", "pkg/cpuset"},
		"internal/history":   nil,
		"internal/explain":   {"internal/inspect", "pkg/allocate", "pkg/cpuset", "pkg/pools", "pkg/topology", "pkg/workload"},
		"internal/inspect":   {"internal/history", "pkg/cpuset", "pkg/pools", "pkg/topology"},
		"internal/report":    {"internal/history", "internal/inspect"},
		"internal/hotplug":   nil,
		"internal/picture":   {"internal/inspect", "pkg/cpuset"},
		"internal/overview":  {"pkg/workload"},
		"internal/viewer":    {"internal/inspect", "internal/picture", "pkg/cpuset"},
		"internal/node":      {"pkg/cpuset", "pkg/workload"},
		"internal/noise":     {"pkg/cpuset"},
		"internal/audit":     {"pkg/cpuset"},
		"internal/daemon":    {"pkg/...", "internal/appcpus", "internal/audit", "internal/config", "internal/control", "internal/durable", "internal/explain", "internal/history", "internal/host", "internal/hotplug", "internal/managers", "internal/node", "internal/noise", "internal/power", "internal/inspect", "internal/telemetry", "internal/tune"},
		"internal/durable":   nil,
		"internal/tune":      {"internal/durable", "internal/noise", "pkg/cpuset"},
		"internal/power":     {"internal/tune", "pkg/cpuset", "pkg/workload"},
		"cmd/cpupoold":       {"pkg/...", "internal/..."},

		"internal/hostedpriority": nil,
		"internal/hostedclusters": {"internal/hostedpriority"},

		"internal/review":     {"internal/admission"},
		"internal/eviction":   {"internal/admission", "pkg/workload"},
		"internal/election":   {},
		"internal/evictor":    {"internal/election", "internal/eviction", "pkg/workload"},
		"internal/webhook":    {"internal/admission", "internal/eviction", "internal/evictor", "internal/hostedpriority", "internal/review", "pkg/workload"},
		"cmd/cpupool-webhook": {"internal/election", "internal/evictor", "internal/hostedclusters", "internal/webhook"},
		"cmd/kubectl-cpupool": {"internal/admission", "internal/adopt", "internal/config", "internal/inspect", "internal/layout", "internal/lint", "internal/manifest", "internal/migrate", "internal/overview", "internal/picture", "internal/simulate", "internal/viewer", "pkg/cpuset", "pkg/topology", "pkg/workload"},
	}
}

// notInDaemon are packages that only the other programs need: the daemon must not
// link them, nor what they bring along.
func notInDaemon() []string {
	return []string{
		module + "internal/admission", module + "internal/adopt", module + "internal/election", module + "internal/eviction", module + "internal/evictor", module + "internal/hostedclusters", module + "internal/hostedpriority", module + "internal/lint", module + "internal/manifest", module + "internal/migrate", module + "internal/overview", module + "internal/picture", module + "internal/review", module + "internal/simulate", module + "internal/viewer", module + "internal/webhook",
		"k8s.io/api", "k8s.io/apimachinery", "sigs.k8s.io/controller-runtime",
	}
}

// testOnly are packages that production code must not link.
func testOnly() []string {
	return []string{"internal/manpages", "internal/reference", "internal/testnode", "test"}
}

type pkg struct {
	ImportPath, Name, Dir, Doc string
	Imports, GoFiles           []string
	Deps                       []string
}

// rel is the path of the package in the module.
func (p pkg) rel() string { return strings.TrimPrefix(p.ImportPath, module) }

func (p pkg) isTest() bool { return under(p.rel(), "test") }

// list runs go list over the module, VM tests included.
func list(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-tags", "vm,guest", "-json=ImportPath,Name,Dir,Doc,Imports,GoFiles,Deps", "./...")
	cmd.Dir = "../.."
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		all = append(all, p)
	}
}

// forbidden returns the module's packages among imports that the package may
// not import, and whether the package is known at all.
func forbidden(rel string, imports []string) (bad []string, known bool) {
	allowed, known := rule(rel)
	for _, imp := range imports {
		to, ours := strings.CutPrefix(imp, module)
		ok := func(pattern string) bool {
			dir, tree := strings.CutSuffix(pattern, "/...")
			return to == dir || tree && under(to, dir)
		}
		if ours && !under(to, rel) && !slices.ContainsFunc(allowed, ok) {
			bad = append(bad, to)
		}
	}
	return bad, known
}

// rule finds the rule of the package or of the closest package above it.
func rule(rel string) (allowed []string, known bool) {
	for dir := rel; dir != "."; dir = path.Dir(dir) {
		if allowed, known = arrows()[dir]; known {
			return allowed, true
		}
	}
	return nil, false
}

func under(rel, dir string) bool { return rel == dir || strings.HasPrefix(rel, dir+"/") }

func TestImportsPointOneWay(t *testing.T) {
	for _, p := range list(t) {
		if p.isTest() {
			continue
		}
		bad, known := forbidden(p.rel(), p.Imports)
		if !known {
			t.Errorf("%s has no place in the architecture: add it to arrows and to ARCHITECTURE.md", p.rel())
		}
		for _, to := range bad {
			t.Errorf("%s must not import %s", p.rel(), to)
		}
	}
}

func TestProductionLinksNoTestCode(t *testing.T) {
	for _, p := range list(t) {
		if p.Name != "main" || p.isTest() {
			continue
		}
		for _, dep := range append(p.Deps, p.Imports...) {
			rel, ours := strings.CutPrefix(dep, module)
			if dep == "testing" || ours && slices.ContainsFunc(testOnly(), func(dir string) bool { return under(rel, dir) }) {
				t.Errorf("%s links %s", p.rel(), dep)
			}
		}
	}
}

func TestDaemonIsLean(t *testing.T) {
	found := false
	for _, p := range list(t) {
		if p.rel() != "cmd/cpupoold" {
			continue
		}
		found = true
		if len(p.Deps) == 0 {
			t.Error("go list knows no dependencies of cmd/cpupoold")
		}
		for _, dep := range p.Deps {
			if slices.ContainsFunc(notInDaemon(), func(dir string) bool { return under(dep, dir) }) {
				t.Errorf("cmd/cpupoold links %s", dep)
			}
		}
	}
	if !found {
		t.Error("there is no cmd/cpupoold: say here what it is called now")
	}
}

func TestForbidden(t *testing.T) {
	for _, c := range []struct {
		pkg, imp string
		want     bool // forbidden
	}{
		{"pkg/cpuset", "fmt", false},
		{"pkg/cpuset", module + "pkg/topology", true},
		{"pkg/topology", module + "pkg/cpuset", false},
		{"pkg/pools", module + "pkg/cgroup", true},
		{"pkg/cgroup", module + "pkg/pools", true},
		{"pkg/cgroup/cgrouptest", module + "pkg/cgroup", true},
		{"pkg/cgroup/cgrouptest", module + "pkg/cpuset", false},
		{"internal/daemon", module + "pkg/cri", false},
		{"internal/daemon", module + "internal/testnode", true},
		{"internal/testnode", module + "pkg/cgroup", false},
	} {
		bad, _ := forbidden(c.pkg, []string{c.imp})
		if got := len(bad) > 0; got != c.want {
			t.Errorf("%s imports %s: forbidden = %v; want %v", c.pkg, c.imp, got, c.want)
		}
	}
	if _, known := forbidden("pkg/util", nil); known {
		t.Error("pkg/util is known; want a package without a rule to be unknown")
	}
}

// The linter's rules are for editors; they must say what arrows says.
func TestLinterAgrees(t *testing.T) {
	data, err := os.ReadFile("../../.golangci.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Linters struct {
			Settings struct {
				Depguard struct {
					Rules map[string]struct {
						Files, Allow []string
						Deny         []struct{ Pkg string }
					}
				}
			}
		}
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	want, got := map[string][]string{}, map[string][]string{}
	for rel, allowed := range arrows() {
		if under(rel, "pkg") {
			want[rel] = append([]string{}, allowed...)
		}
	}
	for name, rule := range file.Linters.Settings.Depguard.Rules {
		if name == "everywhere" {
			continue
		}
		rel := strings.TrimSuffix(strings.TrimPrefix(rule.Files[0], "**/"), "/*.go")
		got[rel] = []string{}
		for _, a := range rule.Allow {
			got[rel] = append(got[rel], strings.TrimPrefix(a, module))
		}
		if len(rule.Deny) != 1 || rule.Deny[0].Pkg+"/" != module {
			t.Errorf("depguard rule %s does not deny the module", name)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("depguard rules of .golangci.yml (-arrows +linter):\n%s", diff)
	}
}
