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

// arrows returns for each package the packages of this module that it may import. A
// package without an entry fails the test: decide first where it belongs.
func arrows() map[string][]string {
	all := map[string][]string{
		"pkg/cpuset":   nil,
		"pkg/workload": nil,
		"pkg/topology": {"pkg/cpuset"},
		"pkg/cgroup":   {"pkg/cpuset"},
		"pkg/systemd":  {"pkg/cgroup", "pkg/cpuset"},
		"pkg/cri":      {"pkg/internal/bounded", "pkg/internal/localgrpc", "pkg/cpuset"},

		"pkg/nri":          {"pkg/internal/bounded", "pkg/cpuset", "pkg/cri"},
		"pkg/podresources": {"pkg/internal/localgrpc", "pkg/cpuset"},

		"pkg/allocate": {"pkg/cpuset", "pkg/topology"},
		"pkg/pools":    {"pkg/allocate", "pkg/cpuset", "pkg/topology", "pkg/workload"},
		"pkg/poolspec": {"pkg/allocate", "pkg/cpuset", "pkg/pools", "pkg/topology"},
		"pkg/defrag":   {"pkg/allocate", "pkg/cpuset", "pkg/pools", "pkg/topology"},

		"pkg/internal/bounded":   nil,
		"pkg/internal/localgrpc": nil,

		// Shared by programs.
		"internal/document":      nil,
		"internal/findings":      nil,
		"internal/nodecheck":     {"internal/findings"},
		"internal/nodekind":      nil,
		"internal/othermanagers": {"internal/findings"},

		"internal/capacity":  {"pkg/cpuset", "pkg/pools", "pkg/poolspec", "pkg/workload"},
		"internal/cpuclaim":  nil,
		"internal/dra":       {"internal/cpuclaim", "internal/inspect", "pkg/cpuset", "pkg/pools"},
		"internal/admission": {"internal/cpuclaim", "internal/nodekind", "pkg/cpuset", "pkg/workload"},
		"internal/codes":     nil,
		"internal/control":   {"internal/history", "internal/inspect", "internal/limits", "pkg/cpuset", "pkg/pools"},
		"internal/config":    {"internal/layout", "internal/spelling", "pkg/allocate", "pkg/cpuset", "pkg/pools", "pkg/poolspec", "pkg/topology", "pkg/workload"},
		"internal/explain":   {"internal/codes", "internal/history", "internal/inspect", "internal/layout", "internal/spelling", "internal/verdict", "pkg/allocate", "pkg/cpuset", "pkg/pools", "pkg/topology", "pkg/workload"},
		"internal/history":   nil,
		"internal/inspect":   {"internal/history", "pkg/allocate", "pkg/cpuset", "pkg/pools", "pkg/topology"},
		"internal/layout":    nil,
		"internal/limits":    nil,

		"internal/autoscaling": nil,
		"internal/memorylimit": nil,
		"internal/spelling":    nil,
		"internal/usage":       {"internal/spelling"},
		"internal/verdict":     {"internal/inspect", "internal/layout", "internal/spelling", "pkg/allocate", "pkg/pools", "pkg/workload"},
		"internal/version":     nil,

		// kubectl-cpupool.
		"internal/plugin/clustercheck": {"internal/findings", "internal/nodecheck", "internal/nodekind", "internal/othermanagers", "internal/plugin/quota", "pkg/workload"},

		"internal/plugin/claims":   {"internal/cpuclaim", "internal/dra", "internal/plugin/manifest"},
		"internal/plugin/adopt":    {"internal/admission", "internal/plugin/claims", "internal/plugin/manifest"},
		"internal/plugin/lint":     {"internal/admission", "internal/autoscaling", "internal/cpuclaim", "internal/inspect", "internal/plugin/claims", "internal/plugin/manifest", "internal/plugin/quota", "internal/plugin/simulate", "internal/spelling", "internal/verdict", "pkg/pools", "pkg/workload"},
		"internal/plugin/manifest": {"internal/admission", "internal/spelling"},
		"internal/plugin/migrate":  {"internal/config", "internal/layout", "internal/plugin/manifest", "internal/spelling", "pkg/allocate", "pkg/cpuset", "pkg/pools", "pkg/topology", "pkg/workload"},
		"internal/plugin/overview": {"internal/dra", "pkg/workload"},
		"internal/plugin/picture":  {"internal/inspect", "internal/layout", "pkg/cpuset"},
		"internal/plugin/quota":    {"pkg/workload"},
		"internal/plugin/simulate": {"internal/admission", "internal/capacity", "internal/config", "internal/dra", "internal/explain", "internal/inspect", "internal/nodekind", "internal/plugin/claims", "internal/plugin/manifest", "internal/verdict", "pkg/allocate", "pkg/cpuset", "pkg/defrag", "pkg/pools", "pkg/topology", "pkg/workload"},
		"internal/plugin/size":     {"internal/admission", "internal/config", "internal/inspect", "internal/plugin/simulate", "pkg/cpuset", "pkg/pools", "pkg/poolspec", "pkg/topology", "pkg/workload"},
		"internal/plugin/viewer":   {"internal/codes", "internal/inspect", "internal/plugin/picture", "pkg/cpuset"},

		"internal/plugin/autoscale": {"internal/capacity", "internal/config", "internal/plugin/simulate", "pkg/topology"},

		// cpupool-dra.
		"internal/claimdriver/slices": {"internal/dra", "internal/inspect", "pkg/cpuset"},

		// cpupool-webhook.
		"internal/cluster/election":       nil,
		"internal/cluster/eviction":       {"internal/admission", "pkg/workload"},
		"internal/cluster/evictor":        {"internal/cluster/election", "internal/cluster/eviction", "pkg/workload"},
		"internal/cluster/hostedclusters": {"internal/cluster/hostedpriority"},
		"internal/cluster/hostedpriority": nil,
		"internal/cluster/installation":   nil,
		"internal/cluster/resourceclaims": {"internal/cpuclaim"},
		"internal/cluster/review":         {"internal/admission", "internal/autoscaling"},
		"internal/cluster/webhook":        {"internal/admission", "internal/cluster/eviction", "internal/cluster/evictor", "internal/cluster/hostedpriority", "internal/cluster/resourceclaims", "internal/cluster/review", "internal/limits", "internal/nodekind", "internal/spelling", "pkg/workload"},

		// cpupool-dra.
		"internal/claimdriver":          {"internal/claimdriver/cdifiles", "internal/claimdriver/slices", "internal/control", "internal/dra", "internal/inspect", "internal/limits", "pkg/cpuset", "pkg/pools"},
		"internal/claimdriver/cdifiles": {"internal/dra", "pkg/cpuset", "pkg/cri"},

		// Test support.
		"internal/testing/claimnode":   {"internal/claimdriver", "internal/claimdriver/slices", "internal/control", "internal/dra", "internal/history", "internal/inspect", "internal/testing/nodefixture", "pkg/cpuset", "pkg/pools"},
		"internal/testing/invariants":  {"pkg/allocate", "pkg/cpuset", "pkg/pools", "pkg/workload"},
		"internal/testing/machines":    {"pkg/cpuset", "pkg/topology"},
		"internal/testing/manpages":    nil,
		"internal/testing/nodefixture": {"pkg/...", "internal/config", "internal/node/annotations", "internal/node/hostenv", "internal/node/noise", "internal/node/undo", "internal/testing/invariants", "internal/testing/testnode/..."},
		"internal/testing/reference":   nil,
		"internal/testing/testnode":    {"pkg/...", "internal/testing/invariants", "internal/testing/testnode"},

		"cmd/cpupoold":        {"pkg/...", "internal/codes", "internal/config", "internal/control", "internal/document", "internal/explain", "internal/history", "internal/inspect", "internal/layout", "internal/memorylimit", "internal/node/...", "internal/usage", "internal/version"},
		"cmd/cpupool-dra":     {"internal/claimdriver", "internal/claimdriver/slices", "internal/memorylimit", "internal/usage", "internal/version"},
		"cmd/cpupool-webhook": {"internal/cluster/...", "internal/memorylimit", "internal/usage", "internal/version"},
		"cmd/kubectl-cpupool": {"internal/admission", "internal/codes", "internal/config", "internal/document", "internal/dra", "internal/explain", "internal/findings", "internal/history", "internal/inspect", "internal/layout", "internal/nodekind", "internal/plugin/...", "internal/verdict", "internal/spelling", "internal/usage", "internal/version", "pkg/cpuset", "pkg/topology", "pkg/workload"},
	}
	for _, r := range rows() {
		all["internal/node/"+r.pkg] = r.imports()
	}
	return all
}

// row is a package of cpupoold. It may import the packages of needs, which stand in
// rows above its own. A package that is not a leaf may import common as well.
type row struct {
	pkg   string
	leaf  bool
	needs []string
}

// rows returns the packages of cpupoold, bottom up.
func rows() []row {
	return []row{
		// Leaves: each knows one subject, and nothing of pods or of the loop.
		{"confined", true, nil},
		{"conflict", true, nil},
		{"appcpus", true, []string{"confined", "pkg/cpuset"}},
		{"audit", true, []string{"pkg/cpuset"}},
		{"durable", true, []string{"confined"}},
		{"hostslices", true, []string{"pkg/cgroup", "pkg/cpuset", "pkg/systemd"}},
		{"procroot", true, nil},
		{"kernelfs", true, nil},
		{"quantity", true, nil},
		{"managers", true, []string{"procroot"}},
		{"annotations", true, []string{"managers", "pkg/pools", "pkg/workload"}},
		{"telemetry", true, []string{"internal/limits", "pkg/cpuset"}},
		{"nodestatus", true, []string{"durable", "internal/capacity", "internal/config", "internal/layout", "pkg/cpuset", "pkg/workload", "quantity", "telemetry"}},
		{"noise", true, []string{"pkg/cpuset"}},
		{"tune", true, []string{"audit", "conflict", "durable", "internal/layout", "noise", "pkg/cpuset"}},
		{"power", true, []string{"tune", "pkg/cpuset", "pkg/workload"}},
		{"report", true, []string{"internal/history", "internal/inspect"}},
		{"hostkubelet", true, []string{"procroot", "pkg/cgroup"}},
		{"usablecpus", true, []string{"pkg/cgroup", "pkg/cpuset", "pkg/pools", "pkg/topology"}},
		{"preflight", true, []string{"pkg/...", "internal/config", "internal/findings", "internal/layout", "internal/nodecheck", "internal/othermanagers", "hostkubelet", "hostslices", "managers", "procroot", "quantity", "usablecpus"}},
		{"threads", true, []string{"pkg/cgroup"}},
		{"schedwatch/account", true, nil},
		{"schedwatch", true, []string{"audit", "pkg/cpuset", "schedwatch/account"}},
		{"livereport", true, []string{"audit", "pkg/cpuset", "schedwatch"}},
		{"latency", true, []string{"audit", "confined", "pkg/cpuset"}},

		// State and decisions.
		{"actor", true, nil},
		{"service", false, []string{"confined"}},
		{"hostenv", false, []string{"annotations", "hostkubelet", "hostslices", "kernelfs", "managers", "noise", "procroot", "service", "usablecpus"}},
		{"auditor", false, []string{"audit", "kernelfs"}},
		{"liveaudit", false, []string{"audit", "kernelfs", "schedwatch"}},
		{"undo", false, []string{"durable", "hostenv", "kernelfs", "managers"}},
		{"retry", false, []string{"conflict"}},
		{"quiet", false, nil},
		{"memrelease", false, nil},
		{"listing", false, nil},
		{"permission", false, []string{"nodestatus"}},
		{"waits", false, nil},
		{"lookup", false, []string{"hostenv", "hostslices", "managers"}},
		{"inventory", false, []string{"lookup", "managers"}},
		{"claimuse", false, []string{"inventory"}},
		{"numahints", false, []string{"hostenv", "inventory"}},
		{"kernelstate", false, []string{"inventory", "threads", "undo"}},
		{"refusal", false, []string{"inventory", "numahints"}},
		{"resize", false, []string{"hostenv", "inventory", "lookup"}},
		{"treewatch", false, []string{"actor", "inventory"}},
		{"exposure", false, []string{"inventory", "kernelstate"}},
		{"auxiliary", false, []string{"inventory"}},
		{"formula", false, []string{"inventory", "undo"}},
		{"statickubelet", false, []string{"hostenv", "inventory", "undo"}},
		{"desired", false, []string{"audit", "auxiliary", "formula", "hostenv", "hostslices", "inventory", "managers", "noise", "power", "statickubelet", "tune", "undo"}},
		{"recovery", false, []string{"desired", "inventory"}},
		{"requests", false, []string{"inventory", "kernelstate", "telemetry", "undo", "waits"}},
		{"partition", false, []string{"desired", "hostenv", "inventory", "kernelstate", "noise", "quiet", "retry", "undo"}},
		{"appfiles", false, []string{"appcpus", "desired", "inventory", "kernelstate"}},
		{"units", false, []string{"actor", "desired", "hostenv", "hostslices", "inventory", "kernelstate", "lookup", "retry", "undo"}},
		{"drift", false, []string{"formula", "hostenv", "inventory", "kernelstate", "retry", "undo"}},
		{"hosttuning", false, []string{"desired", "inventory", "kernelfs", "power", "tune"}},
		{"view", false, []string{"desired", "hostenv", "internal/capacity", "internal/explain", "internal/verdict", "inventory", "kernelfs", "nodestatus", "noise"}},
		{"claims", false, []string{"internal/control", "waits"}},
		{"planning", false, []string{"auxiliary", "claims", "desired", "formula", "hostenv", "inventory", "kernelstate", "numahints", "permission", "quiet", "recovery", "statickubelet", "undo"}},
		{"moves", false, []string{"desired", "internal/control", "inventory", "kernelstate", "planning", "retry", "undo", "view", "waits"}},
		{"clusterstate", false, []string{"nodestatus", "view"}},
		{"notices", false, []string{"auxiliary", "desired", "drift", "exposure", "hostenv", "inventory", "kernelstate", "partition", "treewatch", "undo"}},
		{"publish", false, []string{"appcpus", "appfiles", "audit", "auditor", "auxiliary", "claimuse", "clusterstate", "desired", "drift", "exposure", "hostenv", "hosttuning", "inventory", "kernelstate", "liveaudit", "nodestatus", "noise", "partition", "planning", "refusal", "requests", "retry", "service", "treewatch", "undo", "units", "usablecpus", "view"}},
		{"preview", false, []string{"audit", "auxiliary", "desired", "formula", "hostenv", "hostslices", "hosttuning", "internal/layout", "inventory", "kernelstate", "nodestatus", "noise", "numahints", "quiet", "recovery", "statickubelet", "tune", "undo", "usablecpus"}},
		{"restore", false, []string{"desired", "hostenv", "hosttuning", "internal/layout", "kernelfs", "nodestatus", "partition", "preview", "service", "statickubelet", "tune", "undo"}},

		// The event loop: every package but preview and restore, which run without it.
		{"daemon", false, []string{"actor", "appcpus", "auditor", "auxiliary", "claims", "claimuse", "desired", "drift", "formula", "hostenv", "hosttuning", "internal/control", "inventory", "kernelfs", "kernelstate", "listing", "liveaudit", "lookup", "memrelease", "moves", "nodestatus", "notices", "numahints", "partition", "permission", "planning", "publish", "refusal", "requests", "resize", "retry", "service", "statickubelet", "threads", "treewatch", "undo", "units", "usablecpus", "view", "waits"}},
	}
}

// imports returns the packages that a row may import.
func (r row) imports() []string {
	var all []string
	if !r.leaf {
		all = []string{"pkg/...", "internal/config", "internal/history", "internal/inspect", "internal/node/telemetry"}
	}
	for _, n := range r.needs {
		if !strings.Contains(n, "/") {
			n = "internal/node/" + n
		}
		all = append(all, n)
	}
	return all
}

// TestRowsPointUpwards checks that a row needs only rows above its own.
func TestRowsPointUpwards(t *testing.T) {
	above := map[string]bool{}
	for _, r := range rows() {
		for _, n := range r.needs {
			if !strings.Contains(n, "/") && !above[n] {
				t.Errorf("%s needs %s, which has no row above it", r.pkg, n)
			}
		}
		above[r.pkg] = true
	}
}

// notInDaemon returns packages that only the other programs need. The daemon must not
// link them, nor the libraries that they bring along.
func notInDaemon() []string {
	return []string{
		module + "internal/admission", module + "internal/autoscaling", module + "internal/claimdriver", module + "internal/cluster", module + "internal/plugin",
		"k8s.io/api", "k8s.io/apimachinery", "k8s.io/client-go", "k8s.io/dynamic-resource-allocation", "sigs.k8s.io/controller-runtime",
	}
}

// testOnly returns packages that production code must not link.
func testOnly() []string {
	return []string{"internal/testing", "test"}
}

// pkg is a package as go list describes it.
type pkg struct {
	ImportPath, Name, Dir, Doc string
	Imports, GoFiles           []string
	Deps                       []string
}

// rel returns the path of the package in the module.
func (p pkg) rel() string { return strings.TrimPrefix(p.ImportPath, module) }

// isTest reports whether the package is in folder test.
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

// forbidden returns the imports of the module that package rel may not have, and whether
// the package has a rule.
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

// rule returns the allowed imports of the package, or of the closest folder above it.
func rule(rel string) (allowed []string, known bool) {
	for dir := rel; dir != "."; dir = path.Dir(dir) {
		if allowed, known = arrows()[dir]; known {
			return allowed, true
		}
	}
	return nil, false
}

// under reports whether path rel is dir or below it.
func under(rel, dir string) bool { return rel == dir || strings.HasPrefix(rel, dir+"/") }

// TestImportsPointOneWay checks the imports of each package against arrows.
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

// TestProductionLinksNoTestCode checks that programs link neither test support nor package
// testing.
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

// TestDaemonIsLean checks that the daemon links no package of notInDaemon.
func TestDaemonIsLean(t *testing.T) {
	found := false
	for _, p := range list(t) {
		if p.rel() != "cmd/cpupoold" {
			continue
		}
		found = true
		if len(p.Deps) == 0 {
			t.Error("go list returned no dependencies of cmd/cpupoold")
		}
		for _, dep := range p.Deps {
			if slices.ContainsFunc(notInDaemon(), func(dir string) bool { return under(dep, dir) }) {
				t.Errorf("cmd/cpupoold links %s", dep)
			}
		}
	}
	if !found {
		t.Error("cmd/cpupoold does not exist; change this test if it has another name")
	}
}

// TestForbidden checks the interpretation of the rules by examples.
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
		{"internal/node/daemon", module + "pkg/cri", false},
		{"internal/node/daemon", module + "internal/testing/testnode", true},
		{"internal/node/daemon", module + "internal/node/restore", true},
		{"internal/node/undo", module + "internal/node/inventory", true},
		{"internal/node/desired", module + "internal/config", false},
		{"internal/node/audit", module + "internal/config", true},
		{"internal/testing/testnode", module + "pkg/cgroup", false},
		{"internal/testing/nodefixture", module + "internal/node/daemon", true},
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

// TestLinterAgrees checks that .golangci.yml, which editors read, has the rules of arrows for
// the packages below pkg.
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
