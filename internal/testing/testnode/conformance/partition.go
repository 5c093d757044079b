package conformance

import (
	"syscall"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// pod makes a cgroup with two below it, all with cpuset, and says whether the kernel
// has remote partitions.
func (b *bench) pod() (pod, one, two cgroup.Path, ok bool) {
	b.Helper()
	pod = b.child(b.top, "pod")
	one, two = b.child(pod, "one"), b.child(pod, "two")
	return pod, one, two, b.k.Partitions().Remote
}

// grant puts CPUs into the lists of the ancestors and the cgroup itself.
func (b *bench) grant(leaf cgroup.Path, cpus string) {
	b.Helper()
	b.write(b.top, cgroup.FileExclusive, cpus)
	b.write(leaf.Parent(), cgroup.FileExclusive, cpus)
	b.write(leaf, cgroup.FileExclusive, cpus)
}

// partitioned checks what the kernel says of a partition.
func (b *bench) partitioned(p cgroup.Path, want string) {
	b.Helper()
	if got := b.state(p).Partition.String(); got != want {
		b.Errorf("%s of %s: %q, want %q", cgroup.FilePartition, p, got, want)
	}
}

// rootHas waits until the root has CPUs, or has lost them.
func (b *bench) rootHas(cpus cpuset.Set, want bool) {
	b.Helper()
	for deadline := time.Now().Add(patience); ; {
		root := b.state("").Effective
		if cpus.IsSubsetOf(root) == want && (want || !cpus.Overlaps(root)) {
			return
		}
		if time.Now().After(deadline) {
			b.Fatalf("the root has CPUs %s; it has %s: %t is wanted", root, cpus, want)
		}
	}
}

func (b *bench) remotePartition() {
	_, one, two, ok := b.pod()
	if !ok {
		return
	}
	b.task(one)
	other := b.child(b.top, "other")
	b.write(other, cgroup.FileCPUs, "0-3")
	b.grant(one, "2-3")
	b.runs(one, "", b.online()) // a list alone does nothing
	b.write(one, cgroup.FileCPUs, "2-3")
	for _, typ := range []string{"root", "isolated"} {
		b.write(one, cgroup.FilePartition, typ)
		b.partitioned(one, typ)
		b.runs(one, "2-3", "2-3")
		b.runs(other, "0-3", "0-1")
		b.rootHas(cpuset.Of(2, 3), false)
		if s := b.state(one); !s.Effective.IsSubsetOf(s.ParentEffective) {
			b.Errorf("a partition cannot have %s by its state: %s", s.Effective, s.ParentEffective)
		}
		// Its own cpuset.cpus, and those of its ancestors, do not matter.
		b.write(one, cgroup.FileCPUs, "0-3")
		b.write(b.top, cgroup.FileCPUs, "0-1")
		b.partitioned(one, typ)
		b.runs(one, "0-3", "2-3")
		b.write(b.top, cgroup.FileCPUs, "0-3")
		b.write(one, cgroup.FileCPUs, "2-3")
		b.write(one, cgroup.FilePartition, "member")
		b.partitioned(one, "member")
		b.rootHas(cpuset.Of(2, 3), true)
	}
	b.write(one, cgroup.FileExclusive, "\n")
	b.refused(one, cgroup.FilePartition, "x", syscall.EINVAL)
	b.refused(two, cgroup.FileExclusive, "2-3", syscall.EINVAL) // its sibling's cpuset.cpus is 2-3
	b.write(one, cgroup.FileCPUs, "0-3")
	b.write(two, cgroup.FileExclusive, "2-3")
}

func (b *bench) partitionLists() {
	pod, one, two, ok := b.pod()
	if !ok {
		return
	}
	b.write(one, cgroup.FileExclusive, "2-3")
	b.refused(two, cgroup.FileExclusive, "3", syscall.EINVAL) // its sibling has it
	b.write(two, cgroup.FileExclusive, "1")
	b.write(two, cgroup.FileExclusive, "\n")
	b.write(one, cgroup.FileExclusive, "\n")
	b.write(two, cgroup.FileCPUs, "2-3")
	b.refused(one, cgroup.FileExclusive, "1-3", syscall.EINVAL) // its sibling would have nothing left
	b.write(two, cgroup.FileCPUs, "\n")
	b.write(one, cgroup.FileExclusive, "3")
	b.write(one, cgroup.FilePartition, "root") // and none of its ancestors has it
	b.partitioned(one, "root invalid (Invalid cpu list in cpuset.cpus.exclusive)")
	b.write(one, cgroup.FilePartition, "member")
	all := b.k.Possible().String()
	b.write(one, cgroup.FileExclusive, "\n")
	b.grant(one, all)
	b.write(one, cgroup.FilePartition, "root") // the root must keep one
	b.partitioned(one, "root invalid (Invalid cpu list in cpuset.cpus.exclusive)")
	b.write(one, cgroup.FilePartition, "member")
	if s := b.state(pod); s.Effective.String() != b.online() {
		b.Errorf("the pod has CPUs %s", s.Effective)
	}
}

// partitionSibling gives a sibling of a partition a cpuset around it.
func (b *bench) partitionSibling() {
	_, one, two, ok := b.pod()
	if !ok {
		return
	}
	b.task(one)
	b.grant(one, "2-3")
	if b.k.Partitions().Siblings {
		b.write(two, cgroup.FileCPUs, "0-3")
		b.write(one, cgroup.FilePartition, "root")
		b.partitioned(one, "root invalid (Cpu list in cpuset.cpus not exclusive)")
		b.write(one, cgroup.FilePartition, "member")
		b.write(two, cgroup.FileCPUs, "0-1")
	}
	b.write(one, cgroup.FilePartition, "isolated")
	b.write(two, cgroup.FileCPUs, "0-3")
	if !b.k.Partitions().Siblings {
		b.partitioned(one, "isolated")
		b.runs(two, "0-3", "0-1")
		b.write(one, cgroup.FilePartition, "member")
		return
	}
	b.partitioned(one, "isolated invalid")
	b.rootHas(cpuset.Of(2, 3), false) // half torn down
	b.write(one, cgroup.FilePartition, "member")
	b.rootHas(cpuset.Of(2, 3), true)
	b.write(two, cgroup.FileCPUs, "0-1")
	b.write(one, cgroup.FilePartition, "isolated")
	b.partitioned(one, "isolated")
	b.write(one, cgroup.FilePartition, "member")
}

// partitionCut takes CPUs from an ancestor's list.
func (b *bench) partitionCut() {
	pod, one, _, ok := b.pod()
	if !ok {
		return
	}
	b.task(one)
	b.grant(one, "2-3")
	b.write(one, cgroup.FilePartition, "root")
	b.write(pod, cgroup.FileExclusive, "2")
	if b.k.Partitions().Flips {
		b.partitioned(one, "member")
		b.rootHas(cpuset.Of(2, 3), true)
		return
	}
	b.partitioned(one, "root")
	b.runs(one, "", "2")
	b.rootHas(cpuset.Of(3), true)
	b.write(one, cgroup.FilePartition, "member")
}

// partitionCleared clears the lists above a partition, which some kernels let have its
// CPUs nevertheless: then they come back when the lists are there again before it ends.
func (b *bench) partitionCleared() {
	pod, one, _, ok := b.pod()
	if !ok {
		return
	}
	b.task(one)
	b.grant(one, "2-3")
	b.write(one, cgroup.FilePartition, "root")
	b.write(pod, cgroup.FileExclusive, "\n")
	b.write(b.top, cgroup.FileExclusive, "\n")
	if b.k.Partitions().Flips {
		b.partitioned(one, "root")
		b.runs(one, "", "2-3")
		b.rootHas(cpuset.Of(2, 3), false)
	} else {
		b.partitioned(one, "root invalid (Parent is not a partition root)")
		b.rootHas(cpuset.Of(2, 3), true)
	}
	b.write(b.top, cgroup.FileExclusive, "2-3")
	b.write(pod, cgroup.FileExclusive, "2-3")
	b.write(one, cgroup.FilePartition, "member")
	b.rootHas(cpuset.Of(2, 3), true)
	b.write(one, cgroup.FilePartition, "root")
	b.partitioned(one, "root")
	b.write(one, cgroup.FilePartition, "member")
	b.rootHas(cpuset.Of(2, 3), true)
}

func (b *bench) partitionHotplug() {
	_, one, _, ok := b.pod()
	if !ok {
		return
	}
	b.task(one)
	b.grant(one, "2-3")
	// Of a root partition the last CPU stays, EBUSY: its scheduling domain must have one.
	b.write(one, cgroup.FilePartition, "isolated")
	b.k.SetOnline(b, 3, false)
	b.partitioned(one, "isolated")
	b.runs(one, "", "2")
	b.k.SetOnline(b, 2, false)
	b.partitioned(one, "isolated invalid (No cpu available due to hotplug)")
	b.k.SetOnline(b, 2, true)
	b.k.SetOnline(b, 3, true)
	b.rootHas(cpuset.Of(2, 3), true)
	b.partitioned(one, "isolated invalid (No cpu available due to hotplug)") // it does not come back
	b.write(one, cgroup.FilePartition, "member")
	b.write(one, cgroup.FilePartition, "isolated")
	b.partitioned(one, "isolated")
	b.write(one, cgroup.FilePartition, "member")
}

// partitionStranded: a root of which all CPUs are offline cannot be left like that, and
// PlanPartitions ends it all the same.
func (b *bench) partitionStranded() {
	_, one, _, ok := b.pod()
	if !ok || !b.k.Partitions().Deadline {
		return
	}
	b.task(one)
	const stranded = "root invalid (No cpu available due to hotplug)"
	for range 2 {
		b.write(one, cgroup.FileCPUs, "3")
		b.grant(one, "3")
		b.write(one, cgroup.FilePartition, "root")
		b.k.SetOnline(b, 3, false)
		b.partitioned(one, stranded)
		b.refused(one, cgroup.FileCPUs, "1", syscall.EBUSY)
		b.refused(one, cgroup.FileExclusive, "\n", syscall.EBUSY)
		b.settle(true, cgroup.PartitionInForce, []cgroup.Path{one})
		b.partitioned(one, "member")
		b.write(one, cgroup.FileCPUs, "1")
		b.runs(one, "1", "1")
		b.k.SetOnline(b, 3, true)
		b.rootHas(cpuset.Of(3), true)
	}
	// It is a member by name if the lists are left as they are, and comes right with the CPU.
	b.write(one, cgroup.FileCPUs, "3")
	b.grant(one, "3")
	b.write(one, cgroup.FilePartition, "root")
	b.k.SetOnline(b, 3, false)
	b.write(one, cgroup.FilePartition, "member")
	b.refused(one, cgroup.FileCPUs, "1", syscall.EBUSY)
	b.k.SetOnline(b, 3, true)
	b.write(one, cgroup.FileCPUs, "1")
	b.settle(true, cgroup.PartitionInForce, []cgroup.Path{one})
}

func (b *bench) partitionRemoval() {
	pod, one, _, ok := b.pod()
	if !ok {
		return
	}
	b.grant(one, "2-3")
	b.write(one, cgroup.FilePartition, "isolated")
	b.rmdir(one)
	b.rootHas(cpuset.Of(2, 3), true)
	b.write(pod, cgroup.FileExclusive, "\n")
	b.write(b.top, cgroup.FileExclusive, "\n")
}

// partitionTold: a partition that breaks is told of.
func (b *bench) partitionTold() {
	_, one, two, ok := b.pod()
	if !ok || !b.k.Partitions().Siblings {
		return
	}
	b.grant(one, "2-3")
	b.write(one, cgroup.FilePartition, "root")
	w := b.watch()
	w.set([]cgroup.Path{one}, nil)
	w.until(cgroup.Written, one, "")
	b.write(two, cgroup.FileCPUs, "0-3")
	w.until(cgroup.Written, one, cgroup.FilePartition)
	b.write(one, cgroup.FilePartition, "member")
}

// partitionPlans carries out PlanPartitions against the kernel.
func (b *bench) partitionPlans() {
	_, one, two, ok := b.pod()
	if !ok {
		return
	}
	b.task(one)
	b.task(two)
	wish := func(p cgroup.Path, typ cgroup.PartitionType, cpus ...int) cgroup.PartitionWish {
		return cgroup.PartitionWish{Path: p, Type: typ, CPUs: cpuset.Of(cpus...)}
	}
	settled := !b.k.Partitions().Siblings
	leaves := []cgroup.Path{one, two}
	b.settle(settled, cgroup.PartitionInForce, leaves, wish(one, "root", 2, 3))
	b.settle(settled, cgroup.PartitionInForce, leaves, wish(one, "root", 3))
	b.settle(settled, cgroup.PartitionInForce, leaves, wish(one, "isolated", 2, 3))
	b.settle(settled, cgroup.PartitionInForce, leaves, wish(one, "root", 1), wish(two, "isolated", 2, 3))
	b.settle(settled, cgroup.PartitionInForce, leaves, wish(one, "root", 2), wish(two, "isolated", 1))
	b.settle(settled, cgroup.PartitionInForce, leaves, wish(one, "root", 2))
	b.write(two, cgroup.FileCPUs, "0-3")
	if settled {
		b.settle(settled, cgroup.PartitionInForce, leaves, wish(one, "root", 2))
	} else {
		b.partitioned(one, "root invalid")
		b.settle(settled, cgroup.PartitionRefused, leaves, wish(one, "root", 2))
		b.partitioned(one, "member")
	}
	b.write(two, cgroup.FileCPUs, "0-1")
	b.settle(settled, cgroup.PartitionInForce, leaves, wish(one, "root", 2))
	b.write(b.top, cgroup.FileExclusive, "\n")
	b.settle(settled, cgroup.PartitionInForce, leaves, wish(one, "root", 2))
	b.settle(settled, cgroup.PartitionInForce, leaves, wish(one, "isolated", 2))
	b.k.SetOnline(b, 2, false)
	b.settle(settled, cgroup.PartitionWaits, leaves, wish(one, "isolated", 2))
	b.k.SetOnline(b, 2, true)
	b.settle(settled, cgroup.PartitionInForce, leaves, wish(one, "isolated", 2))
	b.settle(settled, "", leaves)
	for _, p := range []cgroup.Path{b.top, one.Parent(), one, two} {
		b.partitioned(p, "member")
		if list, err := b.fs.ReadFile(p, cgroup.FileExclusive); err != nil || string(list) != "\n" {
			b.Errorf("%s keeps %q in its list, %v", p, list, err)
		}
	}
	b.rootHas(cpuset.Range(1, 3), true)
}

// settle carries out the steps to wishes, which all must end in the phase.
func (b *bench) settle(settled bool, want cgroup.PartitionPhase, leaves []cgroup.Path, wishes ...cgroup.PartitionWish) {
	b.Helper()
	for range 50 {
		view, err := b.fs.ReadPartitions(leaves)
		if err != nil {
			b.Fatal(err)
		}
		step := cgroup.PlanPartitions(cgroup.PartitionInput{
			Kernel: cgroup.PartitionKernel{Remote: true, Settled: settled}, Wishes: wishes, Former: leaves, View: view,
			Online: b.k.Online(b), Housekeeping: cpuset.Of(0),
		})
		for _, w := range step.Writes {
			if err := b.fs.Apply(w.Write); err != nil {
				b.Fatal(err)
			}
		}
		if len(step.Writes) > 0 {
			continue
		}
		for p, out := range step.Outcomes {
			if out.Phase != want {
				b.Errorf("%s: %+v, want %s", p, out, want)
			}
		}
		return
	}
	b.Fatal("the steps do not come to an end")
}
