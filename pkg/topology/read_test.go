package topology_test

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// machine returns the tree of an archive in testdata for a test to change.
func machine(t testing.TB, name string) fstest.MapFS {
	t.Helper()
	sys := fstest.MapFS{}
	for _, file := range load(t, filepath.Join("testdata", name+".txtar")).Files {
		if file.Name != wantFile {
			sys[file.Name] = &fstest.MapFile{Data: file.Data}
		}
	}
	return sys
}

// edit sets the contents of files below devices/system. It removes gone files, and all
// files below them.
func edit(sys fstest.MapFS, files map[string]string) fstest.MapFS {
	for name, content := range files {
		full := path.Join("devices/system", name)
		if content != gone {
			sys[full] = &fstest.MapFile{Data: []byte(content)}
			continue
		}
		maps.DeleteFunc(sys, func(file string, _ *fstest.MapFile) bool {
			return file == full || strings.HasPrefix(file, full+"/")
		})
	}
	return sys
}

const gone = "\x00gone"

func TestReadErrors(t *testing.T) {
	tests := []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"no sysfs", map[string]string{"cpu": gone}, "open devices/system/cpu/online"},
		{"nothing online", map[string]string{"cpu/online": "\n"}, "devices/system/cpu/online: no CPU is online"},
		{"no possible", map[string]string{"cpu/possible": gone}, "open devices/system/cpu/possible"},
		{"no present", map[string]string{"cpu/present": gone}, "open devices/system/cpu/present"},
		{"bad list", map[string]string{"cpu/isolated": "1-\n"}, `read devices/system/cpu/isolated: parse CPU list "1-"`},
		{"bad nohz_full", map[string]string{"cpu/nohz_full": "(nil)\n"}, "read devices/system/cpu/nohz_full: "},
		{"huge file", map[string]string{"cpu/present": strings.Repeat("1,", 1<<20)}, "read devices/system/cpu/present: longer than"},
		{
			"no topology", map[string]string{"cpu/cpu5/topology": gone},
			"CPU 5 is online but has no devices/system/cpu/cpu5/topology/core_cpus_list",
		},
		{
			"no package", map[string]string{"cpu/cpu4/topology/physical_package_id": gone},
			"CPU 4 is online but has no devices/system/cpu/cpu4/topology/physical_package_id",
		},
		{
			"bad package", map[string]string{"cpu/cpu4/topology/physical_package_id": "one\n"},
			`read devices/system/cpu/cpu4/topology/physical_package_id: "one" is not a number`,
		},
		{
			"bad die", map[string]string{"cpu/cpu4/topology/die_id": "\n"},
			`read devices/system/cpu/cpu4/topology/die_id: "" is not a number`,
		},
		{
			"not its own sibling", map[string]string{"cpu/cpu5/topology/core_cpus_list": "4\n"},
			"CPU 5 is not among its own thread siblings 4",
		},
		{"no node list", map[string]string{"node/online": gone}, "open devices/system/node/online"},
		{"no memory list", map[string]string{"node/has_memory": gone}, "open devices/system/node/has_memory"},
		{"no cpulist", map[string]string{"node/node1/cpulist": gone}, "open devices/system/node/node1/cpulist"},
		{
			"CPU in no node", map[string]string{"node/node1/cpulist": "9-15\n"},
			"read devices/system/node/node*/cpulist: CPUs 8 are online but in no online node",
		},
		{
			"a distance too few", map[string]string{"node/node0/distance": "10\n"},
			"read devices/system/node/node0/distance: 1 distances for 2 online nodes",
		},
		{
			"bad distance", map[string]string{"node/node0/distance": "10 -1\n"},
			`read devices/system/node/node0/distance: "-1" is not a distance`,
		},
		{"bad cache level", map[string]string{"cpu/cpu8/cache/index3/level": "L3\n"}, `read devices/system/cpu/cpu8/cache/index3/level: "L3" is not a number`},
		{"bad cache list", map[string]string{"cpu/cpu5/cache/index3/shared_cpu_list": "?\n"}, "read devices/system/cpu/cpu5/cache/index3/shared_cpu_list: "},
		{"impossible capacity", map[string]string{"cpu/cpu0/cpu_capacity": "1025\n"}, "read devices/system/cpu/cpu0/cpu_capacity: 1025 is outside 0-1024"},
		{"bad capacity", map[string]string{"cpu/cpu0/cpu_capacity": "1024\n", "cpu/cpu1/cpu_capacity": "fast\n"}, `read devices/system/cpu/cpu1/cpu_capacity: "fast" is not a number`},
		{"bad frequency", map[string]string{"cpu/cpu0/cpufreq/cpuinfo_max_freq": "3 GHz\n"}, `"3 GHz" is not a number`},
		{"bad counters", map[string]string{"../cpu_atom/cpus": "x\n"}, "read devices/cpu_atom/cpus: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := topology.Read(edit(machine(t, "smt"), tt.files))
			if err == nil || !strings.HasPrefix(err.Error(), "read topology: ") || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Read: %v; want an error with %q", err, tt.want)
			}
			if got != nil {
				t.Error("Read returned a topology with its error; want nil")
			}
		})
	}
}

// sets lists the CPUs of groups.
func sets(groups []topology.Group) []string {
	var out []string
	for _, group := range groups {
		out = append(out, group.CPUs.String())
	}
	return out
}

// TestReadCaches is about machines whose last-level cache is not simply there.
func TestReadCaches(t *testing.T) {
	tests := []struct {
		name  string
		files map[string]string
		want  []string
	}{
		{"two nodes share one", nil, []string{"0-7", "8-15"}},
		{"none at all", everyCPU(16, "cache", gone), []string{"0-3", "4-7", "8-11", "12-15"}},
		{"none at CPU 5", map[string]string{"cpu/cpu5/cache": gone}, []string{"0-3", "4-7", "8-15"}},
		{
			"contradiction", map[string]string{"cpu/cpu9/cache/index3/shared_cpu_list": "9\n"},
			[]string{"0-7", "8-11", "12-15"}, // CPU 9 is a thread of the core of CPU 8
		},
		{
			"without itself", map[string]string{"cpu/cpu9/cache/index3/shared_cpu_list": "8\n"},
			[]string{"0-7", "8-11", "12-15"},
		},
		{"hidden list", everyCPU(16, "cache/index3/shared_cpu_list", gone), eachPair(16)},
		{"hidden level", everyCPU(16, "cache/index3/level", gone), eachPair(16)},
		{"hidden type", everyCPU(16, "cache/index3/type", gone), eachPair(16)},
		{"instructions only", everyCPU(16, "cache/index3/type", "Instruction\n"), eachPair(16)},
		{"numbered backwards", everyCPU(16, "cache/index0/level", "4\n"), eachPair(16)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := topology.Read(edit(machine(t, "snc"), tt.files))
			if err != nil {
				t.Fatal(err)
			}
			checkInvariants(t, got)
			if diff := cmp.Diff(tt.want, sets(got.L3s)); diff != "" {
				t.Errorf("L3s (-want +got):\n%s", diff)
			}
		})
	}
}

func everyCPU(n int, name, content string) map[string]string {
	files := map[string]string{}
	for cpu := range n {
		files[fmt.Sprintf("cpu/cpu%d/%s", cpu, name)] = content
	}
	return files
}

func eachPair(n int) []string {
	var pairs []string
	for cpu := 0; cpu < n; cpu += 2 {
		pairs = append(pairs, cpuset.Range(cpu, cpu+1).String())
	}
	return pairs
}

// TestReadContradictions checks the results of Read, and its warnings, for machines whose
// files contradict each other.
func TestReadContradictions(t *testing.T) {
	tests := []struct {
		name, machine string
		files         map[string]string
		cores, nodes  []string // of the first CPUs
		warning       string
	}{
		{
			name: "a sibling that denies it", machine: "smt", files: map[string]string{"cpu/cpu5/topology/core_cpus_list": "5\n"},
			cores: []string{"0-1", "2-3", "4-5", "6-7"}, warning: "thread siblings of CPUs 4-5 disagree",
		},
		{
			name: "a sibling too many", machine: "smt", files: map[string]string{"cpu/cpu5/topology/core_cpus_list": "4-6\n"},
			cores: []string{"0-1", "2-3", "4-7"}, warning: "thread siblings of CPUs 4-7 disagree",
		},
		{
			name: "a CPU in two nodes", machine: "smt", files: map[string]string{"node/node1/cpulist": "7-15\n"},
			nodes: []string{"0-7", "8-15"}, warning: "CPUs 7 are in several NUMA nodes: each belongs to its first node, and nodes 1 have",
		},
		{
			name: "numa=fake", machine: "smt", files: map[string]string{"node/node0/cpulist": "0-15\n", "node/node1/cpulist": "0-15\n"},
			nodes: []string{"0-15", ""}, warning: "Remove numa=fake",
		},
		{
			name: "a core in two nodes", machine: "smt", files: map[string]string{"node/node0/cpulist": "0-8\n", "node/node1/cpulist": "9-15\n"},
			nodes: []string{"0-9", "10-15"}, warning: "CPUs 9 are threads of cores in another cache, die, package or NUMA node",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := topology.Read(edit(machine(t, tt.machine), tt.files))
			if err != nil {
				t.Fatal(err)
			}
			checkInvariants(t, got)
			if diff := cmp.Diff(tt.cores, sets(got.Cores)[:len(tt.cores)], cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("Cores (-want +got):\n%s", diff)
			}
			var nodes []string
			for _, n := range got.Nodes[:len(tt.nodes)] {
				nodes = append(nodes, n.CPUs.String())
			}
			if diff := cmp.Diff(tt.nodes, nodes); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
			if len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], tt.warning) {
				t.Errorf("warnings %q; want one with %q", got.Warnings, tt.warning)
			}
		})
	}
}

// TestReadUnnumberedPackages checks a machine on which all packages have the number -1 (s390x).
func TestReadUnnumberedPackages(t *testing.T) {
	for _, name := range []string{"package_cpus_list", "core_siblings_list"} {
		files := everyCPU(16, "topology/physical_package_id", "-1\n")
		for cpu := range 16 {
			files[fmt.Sprintf("cpu/cpu%d/topology/package_cpus_list", cpu)] = gone
			files[fmt.Sprintf("cpu/cpu%d/topology/%s", cpu, name)] = cpuset.Range(cpu/4*4, cpu/4*4+3).String() + "\n"
		}
		got, err := topology.Read(edit(machine(t, "smt"), files))
		if err != nil {
			t.Fatal(err)
		}
		checkInvariants(t, got)
		want := []topology.Group{{ID: 0, CPUs: cpuset.Range(0, 3)}, {ID: 1, CPUs: cpuset.Range(4, 7)}, {ID: 2, CPUs: cpuset.Range(8, 11)}, {ID: 3, CPUs: cpuset.Range(12, 15)}}
		if diff := cmp.Diff(want, got.Packages); diff != "" {
			t.Errorf("%s: packages (-want +got):\n%s", name, diff)
		}
	}
}

// TestReadDies has two dies a package; their numbers start over in each package.
func TestReadDies(t *testing.T) {
	files := map[string]string{}
	for cpu := range 16 {
		files[fmt.Sprintf("cpu/cpu%d/topology/die_id", cpu)] = fmt.Sprintln(cpu / 4 % 2)
	}
	got, err := topology.Read(edit(machine(t, "snc"), files))
	if err != nil {
		t.Fatal(err)
	}
	checkInvariants(t, got)
	want := []topology.Group{
		{ID: 0, CPUs: cpuset.Range(0, 3)},
		{ID: 1, CPUs: cpuset.Range(4, 7)},
		{ID: 0, CPUs: cpuset.Range(8, 11)},
		{ID: 1, CPUs: cpuset.Range(12, 15)},
	}
	if diff := cmp.Diff(want, got.Dies); diff != "" {
		t.Errorf("Dies (-want +got):\n%s", diff)
	}
}

// TestReadOfflineNode takes node 1 away: the table of distances loses a column,
// and position and number of node 2 differ.
func TestReadOfflineNode(t *testing.T) {
	sys := edit(machine(t, "memory-nodes"), map[string]string{
		"node/online":         "0,2-3\n",
		"node/node0/cpulist":  "0-3\n",
		"node/node1":          gone,
		"node/node0/distance": "10 14 24\n",
		"node/node2/distance": "14 10 26\n",
		"node/node3/distance": "24 26 10\n",
	})
	got, err := topology.Read(sys)
	if err != nil {
		t.Fatal(err)
	}
	checkInvariants(t, got)
	want := []topology.Node{
		{ID: 0, CPUs: cpuset.Range(0, 3), Distances: []int{10, 14, 24}, HasMemory: true},
		{ID: 2, Distances: []int{14, 10, 26}, HasMemory: true},
		{ID: 3, Distances: []int{24, 26, 10}, HasMemory: true},
	}
	if diff := cmp.Diff(want, got.Nodes); diff != "" {
		t.Errorf("Nodes (-want +got):\n%s", diff)
	}
}

// TestReadKinds checks which source of the kind of a core takes precedence, on a
// machine whose counters distinguish its cores.
func TestReadKinds(t *testing.T) {
	slow := func(name, fast, slow string) map[string]string {
		files := everyCPU(22, name, fast)
		maps.Copy(files, everyCPU(6, name, slow))
		return files
	}
	tests := []struct {
		name                    string
		counters                map[string]string
		files                   map[string]string
		performance, efficiency string
	}{
		{name: "counters", counters: map[string]string{"cpu_core": "0-11\n", "cpu_atom": "12-21\n"}, performance: "0-11", efficiency: "12-21"},
		{
			name:        "low power",
			counters:    map[string]string{"cpu_core": "0-11\n", "cpu_atom": "12-19\n", "cpu_lowpower": "20-21\n"},
			performance: "0-11", efficiency: "12-21",
		},
		{
			name:     "counters before capacity",
			counters: map[string]string{"cpu_core": "0-11\n", "cpu_atom": "12-21\n"}, files: slow("cpu_capacity", "1024\n", "400\n"),
			performance: "0-11", efficiency: "12-21",
		},
		{name: "capacity", files: slow("cpu_capacity", "1024\n", "400\n"), performance: "6-21", efficiency: "0-5"},
		{name: "capacity at 80 %", files: slow("cpu_capacity", "1000\n", "800\n")},
		{name: "capacity below 80 %", files: slow("cpu_capacity", "1000\n", "799\n"), performance: "6-21", efficiency: "0-5"},
		{name: "frequency", files: slow("cpufreq/cpuinfo_max_freq", "5000000\n", "3800000\n"), performance: "6-21", efficiency: "0-5"},
		{name: "favoured cores", files: slow("cpufreq/cpuinfo_max_freq", "5000000\n", "4600000\n")},
		{name: "frequency of some", files: everyCPU(21, "cpufreq/cpuinfo_max_freq", "5000000\n")},
		{name: "nothing"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sys := edit(machine(t, "meteor-lake"), map[string]string{"../cpu_core": gone, "../cpu_atom": gone})
			for pmu, cpus := range tt.counters {
				edit(sys, map[string]string{"../" + pmu + "/cpus": cpus})
			}
			got, err := topology.Read(edit(sys, tt.files))
			if err != nil {
				t.Fatal(err)
			}
			kinds := map[topology.CoreKind][]int{}
			for _, cpu := range got.CPUs {
				kinds[cpu.Kind] = append(kinds[cpu.Kind], cpu.ID)
			}
			performance, efficiency := cpuset.Of(kinds[topology.Performance]...), cpuset.Of(kinds[topology.Efficiency]...)
			if performance.String() != tt.performance || efficiency.String() != tt.efficiency {
				t.Errorf("performance %q, efficiency %q; want %q, %q", performance, efficiency, tt.performance, tt.efficiency)
			}
		})
	}
}
