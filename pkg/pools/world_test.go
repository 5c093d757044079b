package pools_test

import (
	"fmt"
	"slices"

	"github.com/cpupoold/cpupoold/internal/testing/testnode/hardware"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/poolspec"
	"github.com/cpupoold/cpupoold/pkg/topology"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// world is a node in random steps: a sequence of bytes chooses them.
type world struct {
	bytes   []byte
	machine hardware.Machine
	top     *topology.Topology
	in      pools.Input
	clock   int64
	ids     int
}

// next returns a number below n; 0 when the bytes have run out.
func (w *world) next(n int) int {
	if len(w.bytes) == 0 {
		return 0
	}
	b := w.bytes[0]
	w.bytes = w.bytes[1:]
	return int(b) % n
}

func newWorld(bytes []byte) *world {
	w := &world{bytes: bytes}
	w.machine = hardware.Machine{
		Packages: 1 + w.next(2), Nodes: 1 + w.next(2), L3s: 1 + w.next(2), Cores: 1 + w.next(3), Threads: 1 + w.next(2),
		Small: w.next(2), Adjacent: w.next(2) == 1, NUMAOff: w.next(4) == 1, Isolated: cpuset.Range(2, 3+w.next(4)),
	}
	w.build()
	w.reload()
	return w
}

// build makes the machine as it is now.
func (w *world) build() {
	w.top = w.machine.Topology()
	w.in.Machine = allocate.New(w.top)
}

// reload assigns each CPU to a pool, and chooses the allocation options. If that leaves
// no valid pools, it takes the machine's pools, or nothing happens.
func (w *world) reload() {
	spec := w.spec()
	p, err := spec.Resolve(w.top)
	switch {
	case err == nil:
		w.in.Pools = p
	case w.next(2) == 1 || w.in.Pools.Shared.IsEmpty():
		w.in.Pools, _ = spec.Adapt(w.top)
	}
}

func (w *world) spec() poolspec.Spec {
	var lists [3]cpuset.Set
	for cpu := range w.top.Present.All() {
		i := []int{0, 1, 1, 2, 2, 2, 2, 2}[w.next(8)]
		lists[i] = lists[i].Union(cpuset.Of(cpu))
	}
	spec := poolspec.Spec{
		Partitions: []poolspec.Partition{{Type: "management", CPUs: lists[0], All: lists[0].IsEmpty(), Namespaces: []string{"kube-system"}}},
		Shared:     &lists[1], Guaranteed: poolspec.Guaranteed{CPUs: lists[2]},
		StrictReservation: w.next(4) > 0,
	}
	if w.next(2) == 1 {
		shared := lists[1].Union(lists[2])
		spec.Shared, spec.Guaranteed = &shared, poolspec.Guaranteed{FromShared: true, Floor: w.next(4)}
	}
	spec.Guaranteed.BindMemory = w.next(4) == 1
	spec.Guaranteed.PodLevel = []pools.PodLevel{"", pools.PodLevelPod, pools.PodLevelContainer}[w.next(3)]
	for range w.next(3) {
		w.option(&spec.Guaranteed.Options)
	}
	for _, name := range append(allocate.OptionNames(), "pod-level") {
		if w.next(2) == 1 {
			spec.Guaranteed.Overrides = append(spec.Guaranteed.Overrides, name)
		}
	}
	for _, name := range []string{"a.service", "b.slice"} {
		switch w.next(5) {
		case 1, 2:
			spec.Units = append(spec.Units, pools.UnitSpec{Name: name, CPUs: 1 + w.next(3)})
		case 3:
			spec.Units = append(spec.Units, pools.UnitSpec{Name: name, Pool: []string{"shared", "management"}[w.next(2)]})
		}
	}
	if w.next(4) == 1 {
		part := &spec.Partitions[0]
		part.CPUs, part.All, part.Auto = cpuset.Set{}, false, true
	}
	if g := &spec.Guaranteed; g.FromShared && w.next(2) == 1 {
		g.Floor, g.FloorPercent = 0, 1+w.next(99)
	}
	return spec
}

// option sets an option, if it goes together with the others.
func (w *world) option(o *allocate.Options) {
	changed := *o
	name := allocate.OptionNames()[w.next(len(allocate.OptionNames()))]
	if changed.Set(name, optionValues[w.next(len(optionValues))]) == nil && len(changed.Validate()) == 0 {
		*o = changed
	}
}

var optionValues = []string{
	"true", "true", "true", "true", "false", "none", "best-effort", "restricted", "single-numa-node", "prefer", "require", "avoid",
	"performance", "prefer-efficiency", "any", "?",
}

// hotplug takes CPUs away or brings them back, and keeps the pools in step.
func (w *world) hotplug() {
	w.machine.Offline = cpuset.Set{}
	for range w.next(3) {
		w.machine.Offline = w.machine.Offline.Union(cpuset.Of(1 + w.next(max(1, w.top.Present.Len()-1))))
	}
	w.machine.Offline = w.machine.Offline.Intersection(w.top.Present).Difference(cpuset.Of(0))
	w.build()
	w.in.Pools = pools.Pools{}
	w.reload()
}

var resources = []pools.Resources{
	{}, {Shares: 2}, {Shares: 1024}, {Shares: 2048}, {Shares: 3072}, {Shares: 4096, Quota: 400000, Period: 100000},
	{Shares: 2048, Quota: 400000, Period: 100000}, {Shares: 2, Quota: 400000, Period: 100000}, {Shares: 512}, {Shares: 262144}, {Shares: 262144, Quota: 30000000, Period: 100000}, {Shares: 1 << 63, Quota: 1 << 62, Period: 1},
}

func (w *world) resources() pools.Resources { return resources[w.next(len(resources))] }

func (w *world) createPod() {
	w.ids++
	p := pools.Pod{
		UID: fmt.Sprint("pod-", w.ids), Namespace: []string{"default", "kube-system"}[w.next(2)], Name: fmt.Sprint(w.next(3)),
		QoS:       []pools.QoS{pools.QoSGuaranteed, pools.QoSGuaranteed, pools.QoSBurstable, pools.QoSBestEffort, pools.QoSNone}[w.next(5)],
		Resources: w.resources(),
		Settled:   w.next(2) == 1,
		Resized:   w.ids%3 == 0,
	}
	if w.next(3) == 1 {
		p.Annotations = map[string]string{
			workload.Names{}.TargetKey([]string{"management", "", "x"}[w.next(3)]): []string{`{"effect":"PreferredDuringScheduling"}`, "{"}[w.next(2)],
			workload.Names{}.ResourcesKey("a"):                                     []string{`{"cpushares":500}`, "-1", `{"cpushares":262144}`}[w.next(3)],
		}
	}
	for range w.next(3) {
		if p.Annotations == nil {
			p.Annotations = make(map[string]string)
		}
		name := allocate.OptionNames()[w.next(len(allocate.OptionNames()))]
		p.Annotations["cpupoold.io/"+name] = optionValues[w.next(len(optionValues))]
	}
	if w.next(6) == 1 {
		p.Annotations = map[string]string{"cpupoold.io/pod-level": []string{"pod", "container", "x"}[w.next(3)]}
	}
	if w.next(6) == 1 {
		p.Annotations = map[string]string{"cpu-quota.crio.io" + []string{"", "/a"}[w.next(2)]: []string{"enable", "disable", "x"}[w.next(3)]}
	}
	if w.next(2) == 1 {
		p.Containers = append(p.Containers, pools.Container{ID: fmt.Sprint("sandbox-", w.ids), Name: "POD", Kind: pools.Infra, State: pools.Running})
	}
	w.in.Pods = append(slices.Clone(w.in.Pods), p)
}

// pod chooses a pod, which may be changed then, or returns nil.
func (w *world) pod() *pools.Pod {
	if len(w.in.Pods) == 0 {
		return nil
	}
	w.in.Pods = slices.Clone(w.in.Pods)
	p := &w.in.Pods[w.next(len(w.in.Pods))]
	p.Containers = slices.Clone(p.Containers)
	return p
}

// startContainer starts a container: a new one, or one that is there already.
func (w *world) startContainer(p *pools.Pod) {
	w.ids++
	w.clock += int64(w.next(2))
	c := pools.Container{
		ID: fmt.Sprint("c-", w.ids), Name: []string{"a", "b", "c"}[w.next(3)], State: pools.ContainerState(w.next(3)),
		CreatedAt: w.clock, Resources: w.resources(), Waiting: w.next(8) == 1,
	}
	if w.next(3) == 1 {
		c.Nodes, c.Devices = cpuset.Of(w.next(4)), true
	}
	if w.next(10) == 1 {
		c.Foreign = &pools.Foreign{Manager: "somebody", CPUs: cpuset.Of(w.next(8), w.next(8)).Intersection(w.top.Online), Alone: w.next(2) == 1}
	}
	p.Containers = append(p.Containers, c)
}

// step lets one thing happen and returns its name.
func (w *world) step() string {
	op := w.next(10)
	p := w.pod()
	switch {
	case p == nil || op == 0:
		w.createPod()
		return "create pod"
	case op <= 3:
		w.startContainer(p)
		return "start container"
	case op == 6:
		w.reload()
		return "reload"
	case op == 7:
		w.hotplug()
		return "hotplug"
	case op == 9 && w.next(2) == 1:
		p.Unread = !p.Unread
		return "pod is unread or read"
	case op == 8 && w.next(2) == 1:
		p.Gone = !p.Gone
		return "pod goes or comes back"
	case op == 8:
		w.in.Pods = slices.DeleteFunc(w.in.Pods, func(o pools.Pod) bool { return o.UID == p.UID })
		return "delete pod"
	case len(p.Containers) == 0:
		return "nothing"
	}
	i := w.next(len(p.Containers))
	switch op {
	case 4:
		p.Containers[i].State = pools.Exited
		p.Containers[i].FinishedAt = w.clock * int64(w.next(2))
		return "exit"
	case 5:
		p.Containers = slices.Delete(p.Containers, i, i+1)
		return "remove container"
	default:
		p.Containers[i].Resources = w.resources()
		return "resize"
	}
}

// topologyOf is a machine for benchmarks: 2 threads a core, 8 cores a cache, 4
// caches a node, 2 nodes a package.
func topologyOf(cpus int) *topology.Topology {
	return hardware.Machine{Packages: max(1, cpus/128), Nodes: 2, L3s: min(4, cpus/32), Cores: 8, Threads: 2}.Topology()
}
