// Package matrix holds the tables of the VM tests: the machines that they run on, and the
// parts into which a run is divided. The tests read them, and so does the generator of
// docs/reference/support-matrix.md.
package matrix

import "github.com/cpupoold/cpupoold/test/vm"

// Suite is a release of Debian, which has a kernel and a systemd.
type Suite struct {
	Name            string
	Kernel, Systemd string // prefixes of their versions
	Partitions      bool   // the kernel has the partitions that cpupoold needs
}

// Suites returns the releases with the oldest kernel, the kernel of most tests, and the
// newest kernel.
func Suites() []Suite {
	return []Suite{
		{"bookworm", "6.1.", "252", false},
		{"trixie", "6.12.", "257", true},
		{"forky", "7.", "26", true}, // not released: its versions still change
	}
}

// Pair is a container runtime on a release of Debian.
type Pair struct {
	Name    string
	Config  vm.Config
	Version string // prefix of the version of the runtime
	Suite   Suite
}

// Pairs returns machines that together have each runtime and each suite. Not each product
// of them is in the list. The first one is the machine of all other tests. The table in
// test/vm/README.md shows how far each is tested.
func Pairs() []Pair {
	suites := Suites()
	bookworm, trixie, forky := suites[0], suites[1], suites[2]
	pair := func(name string, s Suite, runtime vm.Runtime, version string) Pair {
		return Pair{name, vm.Config{Topology: "8c2n", Node: true, Suite: s.Name, Runtime: runtime}, version, s}
	}
	return []Pair{
		pair("containerd", trixie, vm.Runtime{}, "2."),
		pair("containerd-nri-off", trixie, vm.Runtime{NRIOff: true}, "2."),
		pair("containerd-1.7", trixie, vm.Runtime{Name: "containerd-1.7"}, "1.7."),
		pair("containerd-cgroupfs", trixie, vm.Runtime{Cgroupfs: true}, "2."),
		pair("crio-runc", bookworm, vm.Runtime{Name: "crio-runc", PodEvents: true}, "1.34."),
		pair("crio-crun", forky, vm.Runtime{Name: "crio-crun"}, "1.34."),
	}
}

// Test returns the name of the pair's part of TestPairs.
func (p Pair) Test() string { return "TestPairs/" + p.Name }

// Tests returns the full names of the tests that check the software of the pair.
func (p Pair) Tests() []string {
	if p.Name == Pairs()[0].Name {
		return []string{p.Test(), "TestGuarantees"}
	}
	return []string{p.Test()}
}

// Part is a group of tests that one machine runs for TestKernels.
type Part struct {
	Name    string
	Package string // below test/vm/guest
	Tests   string // of the package, a regular expression
	Bare    bool   // a kernel without systemd is enough
}

// Parts returns the tests that depend on the kernel, without those for which the suite's
// kernel is too old. The version of the kernel alone decides, so that a defect of a new
// kernel cannot skip a test.
func (s Suite) Parts() []Part {
	all := []Part{
		{Name: "cgroup", Package: "cgroup", Bare: true},
		{Name: "isolation", Package: "isolation", Tests: "."},
		{Name: "changes", Package: "daemon", Tests: "^(TestHotplug|TestResize)$"},
	}
	if s.Partitions {
		all = append(all,
			Part{Name: "partitions", Package: "daemon", Tests: "^(TestPartition|TestParking)$"},
			Part{Name: "deaths", Package: "daemon", Tests: "^TestHandoverDeaths$"})
	}
	return all
}

// KernelTests returns the full names of the suite's tests of TestKernels.
func (s Suite) KernelTests() []string {
	var names []string
	for _, p := range s.Parts() {
		names = append(names, "TestKernels/"+s.Name+"/"+p.Name)
	}
	return names
}
