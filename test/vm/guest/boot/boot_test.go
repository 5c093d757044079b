//go:build guest

package boot_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The expected values come from the host, which knows what it has ordered.
var (
	cpus    = flag.String("cpus", "", "CPUs that must be online, as a list")
	nodes   = flag.String("nodes", "", "NUMA nodes that must be online, as a list")
	sibling = flag.String("sibling", "", "threads of the core of CPU 0, as a list")
)

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(string(data), "\n")
}

func TestTopology(t *testing.T) {
	for path, want := range map[string]string{
		"/sys/devices/system/cpu/online":                            *cpus,
		"/sys/devices/system/node/online":                           *nodes,
		"/sys/devices/system/cpu/cpu0/topology/core_cpus_list":      *sibling,
		"/sys/devices/system/cpu/cpu0/topology/physical_package_id": "0",
	} {
		if got := read(t, path); got != want {
			t.Errorf("%s = %q; want %q", path, got, want)
		}
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
