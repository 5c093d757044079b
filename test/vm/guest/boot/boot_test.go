//go:build guest

package boot_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/pkg/topology"
)

// The expected values come from the host, which configured the machine.
var (
	cpus     = flag.String("cpus", "", "CPUs that must be online, as a list")
	nodes    = flag.String("nodes", "", "CPUs of each NUMA node, as lists with spaces between")
	packages = flag.String("packages", "", "likewise of each package")
	dies     = flag.String("dies", "", "likewise of each die")
	l3s      = flag.String("l3s", "", "likewise of each last-level cache")
	cores    = flag.String("cores", "", "likewise of each core")
)

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(string(data), "\n")
}

// TestTopology checks that pkg/topology reads the topology that the host has configured
// in QEMU.
func TestTopology(t *testing.T) {
	machine, err := topology.Read(os.DirFS("/sys"))
	if err != nil {
		t.Fatal(err)
	}
	lists := func(groups []topology.Group) string {
		var sets []string
		for _, g := range groups {
			sets = append(sets, g.CPUs.String())
		}
		return strings.Join(sets, " ")
	}
	var nodeSets []string
	for i, n := range machine.Nodes {
		if n.ID != i || !n.HasMemory {
			t.Errorf("node %d: ID %d, memory %v; want the same ID, and memory", i, n.ID, n.HasMemory)
		}
		nodeSets = append(nodeSets, n.CPUs.String())
	}
	want := map[string]string{"CPUs": *cpus, "nodes": *nodes, "packages": *packages, "dies": *dies, "L3s": *l3s, "cores": *cores}
	got := map[string]string{
		"CPUs": machine.Online.String(), "nodes": strings.Join(nodeSets, " "), "packages": lists(machine.Packages),
		"dies": lists(machine.Dies), "L3s": lists(machine.L3s), "cores": lists(machine.Cores),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("topology (-want +got):\n%s", diff)
	}
}

func TestCgroup2IsUnified(t *testing.T) {
	var fs unix.Statfs_t
	if err := unix.Statfs("/sys/fs/cgroup", &fs); err != nil {
		t.Fatal(err)
	}
	if fs.Type != unix.CGROUP2_SUPER_MAGIC {
		t.Errorf("type of /sys/fs/cgroup = %#x; want %#x", fs.Type, unix.CGROUP2_SUPER_MAGIC)
	}
}

func TestControllers(t *testing.T) {
	have := strings.Fields(read(t, "/sys/fs/cgroup/cgroup.controllers"))
	for _, want := range []string{"cpu", "cpuset"} {
		if !slices.Contains(have, want) {
			t.Errorf("cgroup.controllers = %q; want %s among them", have, want)
		}
	}
}

// TestCpusetIsReal moves this process into a cgroup with one CPU and asks the kernel where it may run.
func TestCpusetIsReal(t *testing.T) {
	write(t, "/sys/fs/cgroup/cgroup.subtree_control", "+cpu +cpuset") // systemd enables them for the first unit that asks
	dir := "/sys/fs/cgroup/boot_test"
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	home := "/sys/fs/cgroup" + strings.TrimPrefix(read(t, "/proc/self/cgroup"), "0::")
	t.Cleanup(func() {
		write(t, filepath.Join(home, "cgroup.procs"), "0")
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	write(t, filepath.Join(dir, "cpuset.cpus"), "1")
	write(t, filepath.Join(dir, "cgroup.procs"), "0")
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	if set.Count() != 1 || !set.IsSet(1) {
		t.Errorf("affinity = %v; want CPU 1 alone", set)
	}
}

func write(t *testing.T, path, value string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(value), 0); err != nil {
		t.Fatal(err)
	}
}
