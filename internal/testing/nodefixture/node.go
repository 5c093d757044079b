package nodefixture

import (
	"cmp"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/annotations"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/noise"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/topology"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// defaultCPUs is the number of CPUs of a node whose Spec leaves it out: two NUMA nodes of
// two cores with two threads.
const defaultCPUs = 8

// Spec describes a fake node. The zero value is a node of eight CPUs, whose kernel has no
// cpuset partitions and whose runtime has no NRI.
type Spec struct {
	CPUs    int                    // zero: 8; another number needs another configuration
	Kernel  testnode.CgroupConfig  // its CPUs and NUMA nodes are filled in
	Runtime testnode.RuntimeConfig // its cgroups and units are filled in
}

// Node is a fake node. Tests change its fields before they use Host.
type Node struct {
	T        testing.TB
	Tree     *testnode.Cgroups
	Units    *testnode.Units
	Runtime  *testnode.Runtime
	Client   *cri.Client
	Topology *topology.Topology // as it was at first
	CPUs     *CPUs
	YAML     string // the configuration; PoolsYAML at first
	Dir      string // for the journal
	RunDir   string // in memory, for newer changes of the journal and the files for applications
	Logs     *LogBuffer
	Kubelet  *Kubelet       // nil: the host has no kubelet that reports devices
	Static   *StaticKubelet // nil: the kubelet allocates no CPUs
	Driver   cgroup.Driver  // systemd, unless the Spec has another
	NRI      bool           // the host connects to the runtime's NRI
	Kernel   cgroup.PartitionKernel
	Boot     noise.BootFacts

	// annotations selects the annotations that Client keeps, by the names of the
	// configuration at the last call of Host.
	annotations atomic.Pointer[annotations.Filter]
	names       workload.Names

	attempts map[string]uint32 // next attempt of a container, by pod and name
}

// New returns a fake node. Its configuration puts the resync far away, so that tests
// prove the path of events.
func New(t testing.TB, s Spec) *Node {
	t.Helper()
	if s.CPUs == 0 {
		s.CPUs = defaultCPUs
	}
	s.Kernel.Possible, s.Kernel.Nodes = cpuset.Range(0, s.CPUs-1), cpuset.Range(0, 1)
	if s.Kernel.LeaveBehind == 0 {
		s.Kernel.LeaveBehind = 3
	}
	parts := s.Kernel.Partitions
	n := &Node{
		T: t, YAML: PoolsYAML, Dir: newDir(t), Logs: new(LogBuffer), NRI: s.Runtime.NRI, Driver: cmp.Or(cgroup.Driver(s.Runtime.Driver), cgroup.DriverSystemd),
		Kernel:   cgroup.PartitionKernel{Remote: parts.Remote, Settled: parts.Remote && !parts.Siblings},
		attempts: make(map[string]uint32),
	}
	n.annotations.Store(annotations.New(n.names))
	if n.RunDir = filepath.Join(n.Dir, "run"); isBenchmark(t) {
		n.RunDir = filepath.Join(newMemory(t), "run")
	}
	n.build(s)
	return n
}

// newDir returns a new directory, in memory if the machine has /dev/shm: daemons wait for
// each fsync of the journal. Benchmarks count that time, so they get a directory on disk.
func newDir(t testing.TB) string {
	t.Helper()
	if isBenchmark(t) {
		return t.TempDir()
	}
	return newMemory(t)
}

func isBenchmark(t testing.TB) bool {
	_, is := t.(*testing.B)
	return is
}

func newMemory(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "cpupoold-test")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// ReplaceMachine gives the node another machine, as after a reboot with fewer CPUs: a new
// boot, and none of the cgroups.
func (n *Node) ReplaceMachine(cpus int) {
	n.T.Helper()
	j := n.Journal()
	j.BootID = "the boot before"
	if err := (undo.File{Name: n.journalName()}).Save(j); err != nil {
		n.T.Fatal(err)
	}
	n.build(Spec{CPUs: cpus, Kernel: testnode.CgroupConfig{Possible: cpuset.Range(0, cpus-1), Nodes: cpuset.Range(0, 1)}})
}

// build makes cgroups, units, runtime and CPUs of a complete spec.
func (n *Node) build(s Spec) {
	n.T.Helper()
	var err error
	if n.Topology, err = topology.Read(Sysfs(s.CPUs)); err != nil {
		n.T.Fatal(err)
	}
	n.CPUs = newCPUs(n.Topology)
	n.Tree = testnode.NewCgroups(s.Kernel)
	n.Units = testnode.NewUnits(n.Tree)
	s.Runtime.Tree, s.Runtime.Units = n.Tree.ForRuntime(), n.Units
	s.Runtime.NRITimeout = Timeout // a busy machine can take the two seconds of the runtimes from the daemon
	n.Runtime = testnode.StartRuntime(n.T, s.Runtime)
	client, err := cri.Dial(n.Runtime.Endpoint(), func(key string) bool { return n.annotations.Load().Reads(key) })
	if err != nil {
		n.T.Fatal(err)
	}
	n.T.Cleanup(func() { _ = client.Close() })
	n.Client = client
}

// Config returns the configuration of YAML, checked against the node's first topology.
func (n *Node) Config() (*config.Config, error) {
	return config.Parse([]byte(n.YAML), "config.yaml", config.Overrides{}, n.Topology)
}

// LenientConfig returns the configuration of YAML as the command reads it: the daemon
// adapts it to the machine.
func (n *Node) LenientConfig() (*config.Config, error) {
	return config.Parse([]byte(n.YAML), "config.yaml", config.Overrides{}, nil)
}

// Host returns the node as the daemon sees it.
func (n *Node) Host() hostenv.Host {
	if c, err := n.LenientConfig(); err == nil && c.Names() != n.names {
		n.names = c.Names()
		n.annotations.Store(annotations.New(n.names))
	}
	h := hostenv.Host{
		Annotations: n.annotations.Load(),
		Cgroups:     cgroup.New(n.Tree), Driver: n.Driver, Possible: n.Topology.Possible,
		Runtime: n.Client, Units: n.Units, JournalFile: n.journalName(),
		Nodes: cpuset.Range(0, 1), RunDir: n.RunDir, RecentDir: n.RunDir, CPUs: n.CPUs, UnitFile: n.Units.ReadFile,
		Kernel: n.Kernel, Online: n.Tree.Online, Boot: n.Boot,
	}
	if n.NRI {
		h.NRISocket = n.Runtime.NRISocket()
	}
	if n.Kubelet != nil {
		h.Devices = n.Kubelet
	}
	if n.Static != nil {
		h.CPUManager = n.Static
	}
	return h
}

// Journal returns the journal that the next daemon finds.
func (n *Node) Journal() undo.Document {
	n.T.Helper()
	j, err := undo.File{Name: n.journalName(), RunDir: n.RunDir}.Find()
	if err = cmp.Or(err, j.Damage); err != nil {
		n.T.Fatal(err)
	}
	return j
}

func (n *Node) journalName() string { return filepath.Join(n.Dir, "journal.json") }

// Eventually waits until cond holds. Otherwise the test fails with the cgroups and the log.
func (n *Node) Eventually(what string, cond func() bool) {
	n.T.Helper()
	Eventually(n.T, what, cond, n.Dump, func() string { return "log:\n" + n.Logs.String() })
}

// Receive returns the next value of c. Without a value the test fails with what and the log.
func Receive[T any](n *Node, what string, c <-chan T) T {
	n.T.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(Timeout):
		n.T.Fatalf("timed out: %s\nlog:\n%s", what, n.Logs)
		panic("unreachable")
	}
}
