package matrix_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/test/vm/internal/matrix"
)

var update = flag.Bool("update", false, "write docs/reference/support-matrix.md")

// Values of the column status.
const (
	inCI     = "tested in CI"
	byHand   = "tested by hand"
	built    = "built, not run"
	seen     = "inspected"
	expected = "expected"
	no       = "no"
)

const head = `# Support matrix

Use this page to check whether cpupoold supports the software of your nodes.
The tables of the tests generate it (` + "`make docs`" + `), and a test fails if they differ.

| status | meaning |
|---|---|
| tested in CI | ` + "`.ci/run`" + ` tests this version, in each run or in a [slice](../../test/vm/README.md#slices). A run takes one slice, which the hash of the commit chooses. |
| tested by hand | A ` + "`make`" + ` target or a test of a release tests this version. CI does not. |
| built, not run | CI or ` + "`make release`" + ` compiles the programs. No test runs them there. |
| inspected | ` + "`make release`" + ` reads the package, and compares it with the other files. No test installs it. |
| expected | No test uses this version. The code has no known reason to fail there. |
| no | Not supported. |

## Versions

"Tested version" is the exact version of the tests. All other versions of the row have the status in "others".
The tests and this page do not cover versions outside the table.

`

const afterVersions = `
Debian testing has no fixed versions. The last versions that were tested there are in the [results by kernel](../../test/vm/README.md#kernels).
The daemon reads the version of the kernel, and does not look for features that a distribution has backported.

No test runs a distribution of Kubernetes such as Talos, EKS or k3s. [Distributions](distributions.md) lists their layouts, which come from documents and source. It names the tests of each layout.

## Combinations

The tests cover each runtime, systemd and kernel. They do not cover each combination. ` + "`make test-matrix`" + ` and ` + "`make test-kernels`" + ` test all of these:

`

const afterCombinations = `
## Minimum versions of features

A dash means that the feature has no minimum beyond the table of versions.

`

const tail = `
"NRI" is the interface through which the runtime asks cpupoold before it creates a container. Without NRI, a container runs on other CPUs
for some milliseconds after its start ([install](../how-to/install.md#nri)).
`

// document returns the page.
func document(t *testing.T) string {
	t.Helper()
	ci := readCI(t)
	nodes := nodes(t)
	versions := slices.Concat(kernels(t, ci), runtimes(ci, nodes), ociRuntimes(ci, nodes), systemds(ci), kubernetes(t, ci), architectures(t, ci), packages(t))
	var b strings.Builder
	b.WriteString(head)
	table(&b, []string{"software", "versions", "tested version", "status", "others", "tested by"}, versions)
	b.WriteString(afterVersions)
	table(&b, []string{"runtime", "OCI runtime", "cgroups by", "NRI", "Debian", "tests", "CI"}, combinations(ci, nodes))
	b.WriteString(afterCombinations)
	table(&b, []string{"feature", "kernel, systemd", "runtime", "Kubernetes", "source"}, features())
	b.WriteString(tail)
	return b.String()
}

func table(b *strings.Builder, header []string, rows [][]string) {
	for i, cells := range append([][]string{header, slices.Repeat([]string{"---"}, len(header))}, rows...) {
		for j, c := range cells {
			if c == "" {
				cells[j] = "–"
			}
		}
		if i == 1 {
			fmt.Fprintf(b, "|%s|\n", strings.Join(cells, "|"))
			continue
		}
		fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
	}
}

// debian returns the name of a release that is not its code name.
func debian(s matrix.Suite) string {
	return map[string]string{"bookworm": "Debian 12", "trixie": "Debian 13", "forky": "Debian testing"}[s.Name]
}

// band is a range of kernels that have the same kind of partitions.
type band struct {
	versions    string
	first, last [2]int // major and minor version
}

func bands() []band {
	return []band{
		{"5.6 to 6.10: cpusets", [2]int{5, 6}, [2]int{6, 10}},
		{"6.11 to 6.19: partitions on request", [2]int{6, 11}, [2]int{6, 19}},
		{"7.0 and later: partitions with `isolation: auto`", [2]int{7, 0}, [2]int{7, 99}},
	}
}

// TestBands checks that all kernels of a band have the same partitions, and that the next
// band has others.
func TestBands(t *testing.T) {
	of := func(v [2]int) cgroup.PartitionKernel { return cgroup.PartitionsOf(v[0], v[1]) }
	all := bands()
	for i, b := range all {
		if of(b.first) != of(b.last) {
			t.Errorf("%s: partitions of %v and %v differ", b.versions, b.first, b.last)
		}
		if i > 0 && of(b.first) == of(all[i-1].last) {
			t.Errorf("%s: same partitions as in the band before", b.versions)
		}
	}
}

// kernels returns a row for each band, with the kernels of the suites. A daemon cannot start on
// kernels without openat2.
func kernels(t *testing.T, c ci) [][]string {
	t.Helper()
	rows := [][]string{{"kernel", "before 5.6", "", no, "", ""}}
	for _, b := range bands() {
		var versions, tests []string
		for _, s := range matrix.Suites() {
			major, minor := numbers(t, s.Kernel)
			if cgroup.PartitionsOf(major, minor) != cgroup.PartitionsOf(b.first[0], b.first[1]) {
				continue
			}
			versions = append(versions, prefix(s.Kernel)+" ("+debian(s)+")")
			tests = append(tests, testsOn(s)...)
		}
		rows = append(rows, testedRow("kernel", b.versions, versions, expected, c, tests))
	}
	return append(rows, []string{"cgroups", "v1, or v1 and v2", "", no, "", ""})
}

// numbers returns the major and the minor version of a prefix of a version. The minor
// version is 0 if the prefix is a major version alone.
func numbers(t *testing.T, version string) (major, minor int) {
	t.Helper()
	first, rest, _ := strings.Cut(version, ".")
	major, err := strconv.Atoi(first)
	if err != nil {
		t.Fatalf("parse version %q: %v", version, err)
	}
	rest, _, _ = strings.Cut(rest, ".")
	if rest == "" {
		return major, 0
	}
	if minor, err = strconv.Atoi(rest); err != nil {
		t.Fatalf("parse version %q: %v", version, err)
	}
	return major, minor
}

// prefix returns the prefix of a version as the page shows it.
func prefix(version string) string {
	if major, rest, ok := strings.Cut(version, "."); ok && rest == "" {
		return major + ".x"
	}
	return strings.TrimSuffix(version, ".")
}

// testsOn returns the names of the tests that run on a suite's kernel and systemd.
func testsOn(s matrix.Suite) []string {
	tests := s.KernelTests()
	for _, p := range matrix.Pairs() {
		if p.Suite == s {
			tests = append(tests, p.Tests()...)
		}
	}
	return tests
}

// testedRow returns the row of software on which tests of test/vm run. Without a test all
// versions have the status others.
func testedRow(software, versions string, tested []string, others string, c ci, tests []string) []string {
	if len(tests) == 0 {
		return []string{software, versions, "", others, "", ""}
	}
	slices.Sort(tested)
	status, runs := c.tests(tests...)
	return []string{software, versions, strings.Join(slices.Compact(tested), ", "), status, others, runs}
}

// runtimes returns a row for each release line of a container runtime.
func runtimes(c ci, nodes []node) [][]string {
	lines := []struct{ name, prefix, versions string }{
		{"containerd", "2.", "2.0 and later"},
		{"containerd", "1.7.", "1.7"},
		{"cri-o", "", "1.30 and later"},
	}
	var rows [][]string
	for _, l := range lines {
		var versions, tests []string
		for _, n := range nodes {
			if n.runtime.Name == l.name && strings.HasPrefix(n.pair.Version, l.prefix) {
				versions = append(versions, n.runtimeVersion)
				tests = append(tests, n.pair.Tests()...)
			}
		}
		rows = append(rows, testedRow(proper(l.name), l.versions, versions, expected, c, tests))
	}
	return rows
}

// proper returns the name of a runtime as its project writes it.
func proper(name string) string { return strings.ReplaceAll(name, "cri-o", "CRI-O") }

// ociRuntimes returns a row for each OCI runtime.
func ociRuntimes(c ci, nodes []node) [][]string {
	var rows [][]string
	for _, name := range []string{"runc", "crun"} {
		var versions, tests []string
		for _, n := range nodes {
			if n.runtime.OCI == name {
				versions = append(versions, n.ociVersion)
				tests = append(tests, n.pair.Tests()...)
			}
		}
		rows = append(rows, testedRow(name, "all", versions, expected, c, tests))
	}
	return rows
}

// systemds returns a row for the systemd of each suite.
func systemds(c ci) [][]string {
	var rows [][]string
	for _, s := range matrix.Suites() {
		version := s.Systemd + strings.Repeat("x", len("252")-len(s.Systemd))
		rows = append(rows, testedRow("systemd", version, []string{version + " (" + debian(s) + ")"}, expected, c, testsOn(s)))
	}
	return append(rows,
		[]string{"systemd", "all others from 244", "", expected, "", ""},
		[]string{"systemd", "before 244", "", no, "", ""})
}

// combinations returns a row for each pair, and for each suite of the kernel tests, which
// have the runtime of the first pair.
func combinations(c ci, nodes []node) [][]string {
	row := func(n node, s matrix.Suite, name string, tests ...string) []string {
		nri := map[bool]string{true: "on", false: "off"}[n.runtime.NRI]
		_, runs := c.tests(tests...)
		return []string{
			proper(n.runtime.Name) + " " + n.runtimeVersion, n.runtime.OCI + " " + n.ociVersion, string(n.runtime.Driver), nri,
			debian(s), "`" + name + "`", runs,
		}
	}
	var rows [][]string
	for _, n := range nodes {
		rows = append(rows, row(n, n.pair.Suite, n.pair.Test(), n.pair.Tests()...))
	}
	for _, s := range matrix.Suites() {
		rows = append(rows, row(nodes[0], s, "TestKernels/"+s.Name, s.KernelTests()...))
	}
	return rows
}

// TestDocument checks that the page is up to date. `make docs` writes it.
func TestDocument(t *testing.T) {
	page := filepath.Join(root, "docs/reference/support-matrix.md")
	want := document(t)
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/reference/support-matrix.md is not up to date: run go test ./test/vm/internal/matrix -update (-want +got):\n%s", diff)
	}
}
