package matrix_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"

	"github.com/cpupoold/cpupoold/test/vm/internal/guestnode"
	"github.com/cpupoold/cpupoold/test/vm/internal/image"
	"github.com/cpupoold/cpupoold/test/vm/internal/matrix"
)

// root is the folder of the repository, seen from this package.
const root = "../../../.."

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// find returns the group of the expression in the file. The test fails without a match.
func find(t *testing.T, name, expression string) string {
	t.Helper()
	m := regexp.MustCompile(expression).FindStringSubmatch(read(t, name))
	if m == nil {
		t.Fatalf("%s has nothing that matches %s", name, expression)
	}
	return m[1]
}

// pinned returns the version of a module, without the v, in the go.mod of a folder.
func pinned(t *testing.T, dir, module string) string {
	t.Helper()
	name := dir + "/go.mod"
	f, err := modfile.ParseLax(name, []byte(read(t, name)), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range f.Require {
		if r.Mod.Path == module {
			return strings.TrimPrefix(r.Mod.Version, "v")
		}
	}
	t.Fatalf("%s does not require %s", name, module)
	return ""
}

// ci holds the make targets that .ci/run builds, and their prerequisites, with their recipes.
type ci map[string]string

func readCI(t *testing.T) ci {
	t.Helper()
	targets := ci{}
	todo := strings.Fields(find(t, ".ci/run", `(?m)^phases=\((.*)\)$`))
	for i := 0; i < len(todo); i++ {
		targets[todo[i]] = recipe(t, todo[i])
		todo = append(todo, strings.Fields(find(t, "Makefile", rule(todo[i])+`([^#\n]*)`))...)
	}
	return targets
}

// recipe returns the commands of a target of the Makefile.
func recipe(t *testing.T, target string) string {
	t.Helper()
	return find(t, "Makefile", rule(target)+`.*\n((?:\t.*\n)*)`)
}

// rule returns an expression for the begin of a target's rule.
func rule(target string) string { return `(?m)^` + regexp.QuoteMeta(target) + `:` }

// tests returns the status of software on which the tests of test/vm run, and the runs of
// CI that have one of them: each run, or some slices. More than four slices are counted.
func (c ci) tests(names ...string) (status, runs string) {
	if !strings.Contains(c["test-slice"], "./test/vm -slice ") || !strings.Contains(c["test-node"], "TestGuarantees") {
		return byHand, "`make test-vm`"
	}
	var all []string
	found := map[string]bool{}
	for _, name := range names {
		if s := sliceOf(name); s == "" {
			all = []string{"each run"}
		} else {
			found["`"+s+"`"] = true
		}
	}
	if len(found) > 4 {
		return inCI, strings.Join(append(all, fmt.Sprintf("%d slices", len(found))), ", ")
	}
	return inCI, strings.Join(append(all, slices.Sorted(maps.Keys(found))...), ", ")
}

// sliceOf returns the slice that has a test of test/vm, or "" for a test of each run.
func sliceOf(test string) string {
	for _, s := range matrix.Slices() {
		if slices.Contains(s.Tests, test) {
			return s.Name
		}
	}
	return ""
}

// TestStatus checks which run of CI has a test.
func TestStatus(t *testing.T) {
	sliced := ci{"test-slice": "go test ./test/vm -slice commit", "test-node": "go test -run TestGuarantees"}
	for _, c := range []struct {
		ci           ci
		tests        []string
		status, runs string
	}{
		{sliced, []string{"TestGuarantees"}, inCI, "each run"},
		{sliced, []string{"TestSoak", "TestGuarantees", "TestAlerts"}, inCI, "each run, `alerts`, `soak`"},
		{sliced, []string{"TestSoak", "TestAlerts", "TestUndo/containerd", "TestCheck", "TestCgroup"}, inCI, "5 slices"},
		{ci{"test-slice": "go test ./test/vm", "test-node": sliced["test-node"]}, []string{"TestSoak"}, byHand, "`make test-vm`"},
		{ci{"test-slice": sliced["test-slice"]}, []string{"TestSoak"}, byHand, "`make test-vm`"},
		{ci{"test-unit": "go test"}, []string{"TestSoak"}, byHand, "`make test-vm`"},
	} {
		if status, runs := c.ci.tests(c.tests...); status != c.status || runs != c.runs {
			t.Errorf("tests%v = %q, %q; want %q, %q", c.tests, status, runs, c.status, c.runs)
		}
	}
}

// node is the software of a pair's machine.
type node struct {
	pair                       matrix.Pair
	runtime                    guestnode.Runtime
	runtimeVersion, ociVersion string
}

// nodes returns the machines of all pairs. It reads the files in which the tests in a guest
// find the description of the runtime.
func nodes(t *testing.T) []node {
	t.Helper()
	var all []node
	for _, p := range matrix.Pairs() {
		disk, err := p.Config.Disk()
		if err != nil {
			t.Fatal(err)
		}
		n := node{pair: p}
		for _, file := range settings(t, disk.Layers) {
			if err := json.Unmarshal([]byte(read(t, file)), &n.runtime); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
		}
		module := map[string]string{"containerd": "github.com/containerd/containerd/v2", "crio": "github.com/cri-o/cri-o"}[n.runtime.Unit]
		n.runtimeVersion = version(t, disk, n.runtime.Unit, module)
		if n.runtimeVersion == "" {
			n.runtimeVersion = strings.TrimSuffix(p.Version, ".") + " of " + debian(p.Suite)
		} else if !strings.HasPrefix(n.runtimeVersion, p.Version) {
			t.Errorf("pair %s: %s is version %s; want %s*", p.Name, n.runtime.Unit, n.runtimeVersion, p.Version)
		}
		n.ociVersion = version(t, disk, n.runtime.OCI, "github.com/opencontainers/runc")
		if n.ociVersion == "" {
			n.ociVersion = "package of " + debian(p.Suite)
		}
		all = append(all, n)
	}
	return all
}

// settings returns the files of /etc/vm-node in the layers, in the order in which
// guestnode.ReadRuntime reads them.
func settings(t *testing.T, layers []string) []string {
	t.Helper()
	var files []string
	for _, layer := range layers {
		const parts = "test/vm/parts/layers/"
		found, err := filepath.Glob(filepath.Join(root, parts, layer, "etc/vm-node/*.json"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			files = append(files, parts+layer+"/etc/vm-node/"+filepath.Base(f))
		}
	}
	slices.SortFunc(files, func(a, b string) int { return strings.Compare(filepath.Base(a), filepath.Base(b)) })
	return files
}

// version returns the version of a program that is built from its module in test/vm/parts.
// It returns "" for a program that is a package of Debian.
func version(t *testing.T, disk image.Spec, program, module string) string {
	t.Helper()
	if slices.Contains(disk.Packages, program) {
		return ""
	}
	return pinned(t, "test/vm/parts/"+program, module)
}
