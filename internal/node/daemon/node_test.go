package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// patience is how long anything on the fake node may take. It is never reached
// by a test that passes.
const patience = 30 * time.Second

// eightCPUs is a machine with two nodes of two cores with two threads.
const eightCPUs = 8

const poolsYAML = `apiVersion: config.cpupoold.io/v1alpha1
kind: CPUPoolConfiguration
partitions:
- type: management
  cpus: 0-1
  namespaces: [kube-system]
shared:
  cpus: 2-3
guaranteed:
  cpus: 4-7
resyncPeriod: 10m
weightFormula: quadratic
`

// node is a fake node with the daemon's parts on it. Resync is far away, so that
// the tests prove the event path.
type node struct {
	t       testing.TB
	tree    *testnode.Cgroups
	units   *testnode.Units
	runtime *testnode.Runtime
	client  *cri.Client
	top     *topology.Topology // as it was at first
	cpus    *fakeCPUs
	yaml    string
	dir     string
	logs    *lockedBuffer
	kubelet *fakeKubelet      // nil: the daemon asks none
	manager *staticKubelet    // nil: the kubelet gives no CPUs away
	nri     bool              // the daemon is a plugin of the runtime's
	made    map[string]uint32 // containers by pod and name
	kernel  cgroup.PartitionKernel
	boot    hostenv.BootFacts
}

func newNode(t testing.TB) *node {
	t.Helper()
	return newNodeOf(t, testnode.CgroupConfig{}, testnode.RuntimeConfig{})
}

// newNodeOn is a node with a kernel of which the machine is filled in.
func newNodeOn(t testing.TB, kernel testnode.CgroupConfig) *node {
	t.Helper()
	return newNodeOf(t, kernel, testnode.RuntimeConfig{})
}

// newNodeWith is a node with a runtime of a certain kind.
func newNodeWith(t testing.TB, c testnode.RuntimeConfig) *node {
	t.Helper()
	return newNodeOf(t, testnode.CgroupConfig{}, c)
}

func newNodeOf(t testing.TB, kernel testnode.CgroupConfig, c testnode.RuntimeConfig) *node {
	t.Helper()
	return newNodeOfCPUs(t, eightCPUs, kernel, c)
}

// newNodeOfCPUs is a node of another size, for which its configuration has to be changed.
func newNodeOfCPUs(t testing.TB, cpus int, kernel testnode.CgroupConfig, c testnode.RuntimeConfig) *node {
	t.Helper()
	kernel.Possible, kernel.Nodes = cpuset.Range(0, cpus-1), cpuset.Range(0, 1)
	if kernel.LeaveBehind == 0 {
		kernel.LeaveBehind = 3
	}
	tree := testnode.NewCgroups(kernel)
	units := testnode.NewUnits(tree)
	c.Tree, c.Units = tree.ForRuntime(), units
	rt := testnode.StartRuntime(t, c)
	client, err := cri.Dial(rt.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	top, err := topology.Read(sysfs(cpus))
	if err != nil {
		t.Fatal(err)
	}
	return &node{t: t, tree: tree, units: units, runtime: rt, client: client, top: top, cpus: newCPUs(top),
		yaml: poolsYAML, nri: c.NRI, dir: t.TempDir(), logs: new(lockedBuffer), made: make(map[string]uint32),
		kernel: cgroup.PartitionKernel{Remote: kernel.Partitions.Remote, Settled: kernel.Partitions.Remote && !kernel.Partitions.Siblings}}
}

// sysfs describes n CPUs in two nodes, two threads a core.
func sysfs(n int) fstest.MapFS {
	fs := fstest.MapFS{}
	put := func(name, value string) { fs[name] = &fstest.MapFile{Data: []byte(value + "\n")} }
	all := fmt.Sprintf("0-%d", n-1)
	for _, name := range []string{"possible", "present", "online"} {
		put("devices/system/cpu/"+name, all)
	}
	for cpu := range n {
		dir := fmt.Sprintf("devices/system/cpu/cpu%d/topology/", cpu)
		half := cpu / (n / 2)
		put(dir+"physical_package_id", fmt.Sprint(half))
		put(dir+"core_id", fmt.Sprint(cpu/2))
		put(dir+"core_cpus_list", fmt.Sprintf("%d-%d", cpu&^1, cpu|1))
		put(dir+"package_cpus_list", fmt.Sprintf("%d-%d", half*n/2, (half+1)*n/2-1))
	}
	put("devices/system/node/online", "0-1")
	put("devices/system/node/has_memory", "0-1")
	for i := range 2 {
		put(fmt.Sprintf("devices/system/node/node%d/cpulist", i), fmt.Sprintf("%d-%d", i*n/2, (i+1)*n/2-1))
		put(fmt.Sprintf("devices/system/node/node%d/distance", i), []string{"10 21", "21 10"}[i])
	}
	return fs
}

func (n *node) config() (*config.Config, error) {
	return config.Parse([]byte(n.yaml), "config.yaml", config.Overrides{}, n.top)
}

func (n *node) host() hostenv.Host {
	h := hostenv.Host{
		Cgroups: cgroup.New(n.tree), Driver: cgroup.DriverSystemd, Possible: n.top.Possible,
		Runtime: n.client, Units: n.units, Journal: filepath.Join(n.dir, "journal.json"),
		Nodes: cpuset.Range(0, 1), Files: filepath.Join(n.dir, "run"), Cpus: n.cpus, UnitFile: n.units.ReadFile,
		Kernel: n.kernel, Online: n.tree.Online, Boot: n.boot,
	}
	if n.nri {
		h.NriSocket = n.runtime.NRISocket()
	}
	if n.kubelet != nil {
		h.Devices = n.kubelet
	}
	if n.manager != nil {
		h.Manager = n.manager
	}
	return h
}

func (n *node) options() Options {
	n.t.Helper()
	c, err := n.config()
	if err != nil {
		n.t.Fatal(err)
	}
	return Options{Config: c, Topology: n.cpus.now(), Reload: n.config,
		Log: n.logger()}
}

func (n *node) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(n.logs, nil)) }

// running is a daemon on the node.
type running struct {
	*node
	loop *Loop
	stop func() // ends it as a signal does, and waits
}

// start runs a daemon until stop or the end of the test.
func (n *node) start() *running {
	n.t.Helper()
	return n.startOn(n.host())
}

func (n *node) startOn(h hostenv.Host) *running {
	n.t.Helper()
	o := n.options()
	l, err := newLoop(h, o)
	if err != nil {
		n.t.Fatal(err)
	}
	return n.serve(l, o)
}

func (n *node) serve(l *Loop, o Options) *running {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.serve(ctx, o)
	}()
	r := &running{node: n, loop: l, stop: sync.OnceFunc(func() { cancel(); <-done })}
	n.t.Cleanup(r.stop)
	return r
}

// eventually waits until cond holds.
func (n *node) eventually(what string, cond func() bool) {
	n.t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			n.t.Fatalf("waited in vain: %s\n%s\nlog:\n%s", what, n.dump(), n.logs)
		}
	}
}

// pod makes a pod sandbox; cpus is the pod's total.
func (n *node) pod(uid, namespace, qos string, cpus int, annotations map[string]string) string {
	n.t.Helper()
	id, err := n.runtime.RunPod(testnode.PodSpec{UID: uid, Namespace: namespace, Name: uid, QoS: qos,
		Annotations: annotations, Resources: whole(cpus)})
	if err != nil {
		n.t.Fatal(err)
	}
	return id
}

// container makes and starts a container.
func (n *node) container(pod, name string, res cri.Resources) string {
	n.t.Helper()
	attempt := n.made[pod+"/"+name]
	n.made[pod+"/"+name]++
	id, err := n.runtime.CreateContainer(pod, testnode.ContainerSpec{Name: name, Attempt: attempt, Resources: res})
	if err == nil {
		err = n.runtime.StartContainer(id)
	}
	if err != nil {
		n.t.Fatal(err)
	}
	return id
}

// whole are the resources of n whole CPUs in a Guaranteed pod.
func whole(n int) cri.Resources {
	return cri.Resources{Shares: uint64(n) * 1024, Quota: int64(n) * 100000, Period: 100000}
}

// state is what the kernel says of a container's or sandbox's cgroup.
func (n *node) state(id string) cgroup.State {
	st, err := cgroup.New(n.tree).Read(cgroup.Path(n.runtime.Cgroup(id)))
	if err != nil {
		return cgroup.State{}
	}
	return st
}

// runsOn waits until a container runs on exactly these CPUs.
func (n *node) runsOn(id, cpus string) {
	n.t.Helper()
	n.eventually("container on CPUs "+cpus, func() bool {
		return n.state(id).Effective.String() == cpus && n.threads(id).IsSubsetOf(n.state(id).Effective)
	})
}

// quiet waits until the daemon has nothing left to do.
func (r *running) quiet() {
	r.t.Helper()
	r.quietOr(func() bool { return false })
}

// quietOr is quiet, unless something else ends the wait.
func (r *running) quietOr(over func() bool) {
	r.t.Helper()
	met := 0 // twice: an answer may have been posted after the first question
	r.eventually("all containers known, or denied", func() bool {
		if over() {
			return true
		}
		answer := make(meeting, 1)
		r.loop.box.Post(answer)
		if <-answer {
			met++
		} else {
			met = 0
		}
		return met == 2
	})
	started := time.Now()
	r.loop.box.Post(systemdReloaded{}) // look at everything again
	r.eventually("daemon quiet", func() bool {
		v := r.loop.snapshot.Load()
		return over() || v != nil && v.LastSuccess.After(started)
	})
}

// meeting is an event that asks whether the runtime has told what it knows of each
// container that has been seen.
type meeting chan bool

func (m meeting) apply(l *Loop) {
	l.Asks.Mu.Lock()
	defer l.Asks.Mu.Unlock()
	m <- len(l.unidentified) == 0 || len(l.Asks.Queues) == 0
}

// view waits for a view that satisfies cond.
func (r *running) view(what string, cond func(*telemetry.View) bool) {
	r.t.Helper()
	r.eventually(what, func() bool {
		v := r.loop.snapshot.Load()
		return v != nil && cond(v)
	})
}

func (n *node) dump() string {
	var b bytes.Buffer
	fs := cgroup.New(n.tree)
	_ = fs.Walk("", func(p cgroup.Path) error {
		if st, err := fs.Read(p); err == nil {
			fmt.Fprintf(&b, "%-100s cpus=%q effective=%s weight=%d quota=%d\n", p, st.CPUs, st.Effective, st.Weight, st.Quota)
		}
		return nil
	})
	return b.String()
}

// claims are the places of all processes that have been placed: everything with
// a cpuset of its own.
func (n *node) claims(guaranteed cpuset.Set) []cpuset.Claim {
	var claims []cpuset.Claim
	fs := cgroup.New(n.tree)
	_ = fs.Walk("", func(p cgroup.Path) error {
		st, err := fs.Read(p)
		if err == nil && st.Populated && len(p) > 6 && p[len(p)-6:] == ".scope" && !st.CPUs.IsEmpty() {
			claims = append(claims, cpuset.Claim{Name: string(p), CPUs: st.Effective,
				Exclusive: st.CPUs.IsSubsetOf(guaranteed)})
		}
		return nil
	})
	return claims
}

// check calls the invariant checker on the kernel's word.
func (n *node) check() {
	n.t.Helper()
	for _, err := range cpuset.CheckClaims(n.claims(cpuset.Range(4, 7))) {
		n.t.Errorf("%v\n%s", err, n.dump())
	}
}

// journal reads the journal from the disk.
func (n *node) journal() undo.Document {
	n.t.Helper()
	j, err := undo.PeekJournal(filepath.Join(n.dir, "journal.json"))
	if err != nil {
		n.t.Fatal(err)
	}
	return j
}

// logged returns the log records with the given message.
func (n *node) logged(msg string) []map[string]any {
	var out []map[string]any
	for line := range bytes.Lines(n.logs.Bytes()) {
		var r map[string]any
		if json.Unmarshal(line, &r) == nil && r["msg"] == msg {
			out = append(out, r)
		}
	}
	return out
}

// lockedBuffer is a bytes.Buffer for several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) Bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Clone(b.b.Bytes())
}

func (b *lockedBuffer) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.b = bytes.Buffer{}
}

func (b *lockedBuffer) String() string { return string(b.Bytes()) }

// management are the annotations of a management pod.
// limited are the annotations of a management pod with one container that has a limit, in thousandths of a CPU.
func limited(name string, shares, limit int) map[string]string {
	a := management(nil)
	a["resources.workload.openshift.io/"+name] = fmt.Sprintf(`{"cpushares":%d,"cpulimit":%d}`, shares, limit)
	return a
}

func management(shares map[string]int) map[string]string {
	a := map[string]string{"target.workload.openshift.io/management": `{"effect":"PreferredDuringScheduling"}`}
	for _, name := range slices.Sorted(maps.Keys(shares)) {
		a["resources.workload.openshift.io/"+name] = fmt.Sprintf(`{"cpushares":%d}`, shares[name])
	}
	return a
}
