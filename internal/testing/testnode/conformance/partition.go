package conformance

import (
	"syscall"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// pod creates a cgroup with two children, all with cpuset. ok reports whether the kernel has
// remote partitions.
func (b *bench) pod() (pod, one, two cgroup.Path, ok bool) {
	b.Helper()
	pod = b.child(b.top, "pod")
	one, two = b.child(pod, "one"), b.child(pod, "two")
	return pod, one, two, b.k.Partitions().Remote
}

// grant writes CPUs into the lists of the ancestors and of the cgroup.
func (b *bench) grant(leaf cgroup.Path, cpus string) {
	b.Helper()
	b.write(b.top, cgroup.FileExclusive, cpus)
	b.write(leaf.Parent(), cgroup.FileExclusive, cpus)
	b.write(leaf, cgroup.FileExclusive, cpus)
}

// checkPartition checks the kernel's state of a partition.
func (b *bench) checkPartition(p cgroup.Path, want string) {
	b.Helper()
	if got := b.state(p).Partition.String(); got != want {
		b.Errorf("%s of %s: %q, want %q", cgroup.FilePartition, p, got, want)
	}
}

// awaitRoot waits until the root has all of the CPUs, or none of them.
func (b *bench) awaitRoot(cpus cpuset.Set, want bool) {
	b.Helper()
	for deadline := time.Now().Add(changeTimeout); ; {
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
	b.checkCPUs(one, "", b.online()) // a list alone has no effect
	b.write(one, cgroup.FileCPUs, "2-3")
	for _, typ := range []string{"root", "isolated"} {
		b.write(one, cgroup.FilePartition, typ)
		b.checkPartition(one, typ)
		b.checkCPUs(one, "2-3", "2-3")
		b.checkCPUs(other, "0-3", "0-1")
		b.awaitRoot(cpuset.Of(2, 3), false)
		if s := b.state(one); !s.Effective.IsSubsetOf(s.ParentEffective) {
			b.Errorf("a partition cannot have %s by its state: %s", s.Effective, s.ParentEffective)
		}
		// Changes of its own cpuset.cpus and of its ancestors have no effect.
		b.write(one, cgroup.FileCPUs, "0-3")
		b.write(b.top, cgroup.FileCPUs, "0-1")
		b.checkPartition(one, typ)
		b.checkCPUs(one, "0-3", "2-3")
		b.write(b.top, cgroup.FileCPUs, "0-3")
		b.write(one, cgroup.FileCPUs, "2-3")
		b.write(one, cgroup.FilePartition, "member")
		b.checkPartition(one, "member")
		b.awaitRoot(cpuset.Of(2, 3), true)
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
	b.refused(two, cgroup.FileExclusive, "3", syscall.EINVAL) // its sibling has the CPU
	b.write(two, cgroup.FileExclusive, "1")
	b.write(two, cgroup.FileExclusive, "\n")
	b.write(one, cgroup.FileExclusive, "\n")
	b.write(two, cgroup.FileCPUs, "2-3")
	b.refused(one, cgroup.FileExclusive, "1-3", syscall.EINVAL) // its sibling would be without CPUs
	b.write(two, cgroup.FileCPUs, "\n")
	b.write(one, cgroup.FileExclusive, "3")
	b.write(one, cgroup.FilePartition, "root") // no ancestor has the CPU
	b.checkPartition(one, "root invalid (Invalid cpu list in cpuset.cpus.exclusive)")
	b.write(one, cgroup.FilePartition, "member")
	all := b.k.Possible().String()
	b.write(one, cgroup.FileExclusive, "\n")
	b.grant(one, all)
	b.write(one, cgroup.FilePartition, "root") // the root must keep a CPU
	b.checkPartition(one, "root invalid (Invalid cpu list in cpuset.cpus.exclusive)")
	b.write(one, cgroup.FilePartition, "member")
	if s := b.state(pod); s.Effective.String() != b.online() {
		b.Errorf("the pod has CPUs %s", s.Effective)
	}
}

// partitionSibling checks the effect of a cpuset.cpus around a sibling's partition.
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
		b.checkPartition(one, "root invalid (Cpu list in cpuset.cpus not exclusive)")
		b.write(one, cgroup.FilePartition, "member")
		b.write(two, cgroup.FileCPUs, "0-1")
	}
	b.write(one, cgroup.FilePartition, "isolated")
	b.write(two, cgroup.FileCPUs, "0-3")
	if !b.k.Partitions().Siblings {
		b.checkPartition(one, "isolated")
		b.checkCPUs(two, "0-3", "0-1")
		b.write(one, cgroup.FilePartition, "member")
		return
	}
	b.checkPartition(one, "isolated invalid")
	b.awaitRoot(cpuset.Of(2, 3), false) // half removed
	b.write(one, cgroup.FilePartition, "member")
	b.awaitRoot(cpuset.Of(2, 3), true)
	b.write(two, cgroup.FileCPUs, "0-1")
	b.write(one, cgroup.FilePartition, "isolated")
	b.checkPartition(one, "isolated")
	b.write(one, cgroup.FilePartition, "member")
}

// partitionCut checks the effect of a CPU removed from an ancestor's list.
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
		b.checkPartition(one, "member")
		b.awaitRoot(cpuset.Of(2, 3), true)
		return
	}
	b.checkPartition(one, "root")
	b.checkCPUs(one, "", "2")
	b.awaitRoot(cpuset.Of(3), true)
	b.write(one, cgroup.FilePartition, "member")
}

// partitionCleared clears the lists above a partition. Some kernels leave it in force: it then
// returns its CPUs if the lists are complete again before its end.
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
		b.checkPartition(one, "root")
		b.checkCPUs(one, "", "2-3")
		b.awaitRoot(cpuset.Of(2, 3), false)
	} else {
		b.checkPartition(one, "root invalid (Parent is not a partition root)")
		b.awaitRoot(cpuset.Of(2, 3), true)
	}
	b.write(b.top, cgroup.FileExclusive, "2-3")
	b.write(pod, cgroup.FileExclusive, "2-3")
	b.write(one, cgroup.FilePartition, "member")
	b.awaitRoot(cpuset.Of(2, 3), true)
	b.write(one, cgroup.FilePartition, "root")
	b.checkPartition(one, "root")
	b.write(one, cgroup.FilePartition, "member")
	b.awaitRoot(cpuset.Of(2, 3), true)
}

func (b *bench) partitionHotplug() {
	_, one, _, ok := b.pod()
	if !ok {
		return
	}
	b.task(one)
	b.grant(one, "2-3")
	// A root partition cannot lose its last CPU (EBUSY), because its scheduling domain needs one.
	b.write(one, cgroup.FilePartition, "isolated")
	b.k.SetOnline(b, 3, false)
	b.checkPartition(one, "isolated")
	b.checkCPUs(one, "", "2")
	b.k.SetOnline(b, 2, false)
	b.checkPartition(one, "isolated invalid (No cpu available due to hotplug)")
	b.k.SetOnline(b, 2, true)
	b.k.SetOnline(b, 3, true)
	b.awaitRoot(cpuset.Of(2, 3), true)
	b.checkPartition(one, "isolated invalid (No cpu available due to hotplug)") // it does not recover
	b.write(one, cgroup.FilePartition, "member")
	b.write(one, cgroup.FilePartition, "isolated")
	b.checkPartition(one, "isolated")
	b.write(one, cgroup.FilePartition, "member")
}

// partitionStranded checks that a root whose CPUs are all offline refuses changes, and that
// PlanPartitions can end it.
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
		b.checkPartition(one, stranded)
		b.refused(one, cgroup.FileCPUs, "1", syscall.EBUSY)
		b.refused(one, cgroup.FileExclusive, "\n", syscall.EBUSY)
		b.settle(true, cgroup.PartitionInForce, []cgroup.Path{one})
		b.checkPartition(one, "member")
		b.write(one, cgroup.FileCPUs, "1")
		b.checkCPUs(one, "1", "1")
		b.k.SetOnline(b, 3, true)
		b.awaitRoot(cpuset.Of(3), true)
	}
	// With unchanged lists, it becomes a member but keeps the rule until the CPU is online.
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
	b.awaitRoot(cpuset.Of(2, 3), true)
	b.write(pod, cgroup.FileExclusive, "\n")
	b.write(b.top, cgroup.FileExclusive, "\n")
}

// partitionReported checks that a broken partition is reported.
func (b *bench) partitionReported() {
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

// partitionPlans applies PlanPartitions to the kernel.
func (b *bench) partitionPlans() {
	_, one, two, ok := b.pod()
	if !ok {
		return
	}
	b.task(one)
	b.task(two)
	desired := func(p cgroup.Path, typ cgroup.PartitionType, cpus ...int) cgroup.DesiredPartition {
		return cgroup.DesiredPartition{Path: p, Type: typ, CPUs: cpuset.Of(cpus...)}
	}
	settled := !b.k.Partitions().Siblings
	leaves := []cgroup.Path{one, two}
	b.settle(settled, cgroup.PartitionInForce, leaves, desired(one, "root", 2, 3))
	b.settle(settled, cgroup.PartitionInForce, leaves, desired(one, "root", 3))
	b.settle(settled, cgroup.PartitionInForce, leaves, desired(one, "isolated", 2, 3))
	b.settle(settled, cgroup.PartitionInForce, leaves, desired(one, "root", 1), desired(two, "isolated", 2, 3))
	b.settle(settled, cgroup.PartitionInForce, leaves, desired(one, "root", 2), desired(two, "isolated", 1))
	b.settle(settled, cgroup.PartitionInForce, leaves, desired(one, "root", 2))
	b.write(two, cgroup.FileCPUs, "0-3")
	if settled {
		b.settle(settled, cgroup.PartitionInForce, leaves, desired(one, "root", 2))
	} else {
		b.checkPartition(one, "root invalid")
		b.settle(settled, cgroup.PartitionRefused, leaves, desired(one, "root", 2))
		b.checkPartition(one, "member")
	}
	b.write(two, cgroup.FileCPUs, "0-1")
	b.settle(settled, cgroup.PartitionInForce, leaves, desired(one, "root", 2))
	b.write(b.top, cgroup.FileExclusive, "\n")
	b.settle(settled, cgroup.PartitionInForce, leaves, desired(one, "root", 2))
	b.settle(settled, cgroup.PartitionInForce, leaves, desired(one, "isolated", 2))
	b.k.SetOnline(b, 2, false)
	b.settle(settled, cgroup.PartitionWaits, leaves, desired(one, "isolated", 2))
	b.k.SetOnline(b, 2, true)
	b.settle(settled, cgroup.PartitionInForce, leaves, desired(one, "isolated", 2))
	b.settle(settled, "", leaves)
	for _, p := range []cgroup.Path{b.top, one.Parent(), one, two} {
		b.checkPartition(p, "member")
		if list, err := b.fs.ReadFile(p, cgroup.FileExclusive); err != nil || string(list) != "\n" {
			b.Errorf("%s keeps %q in its list, %v", p, list, err)
		}
	}
	b.awaitRoot(cpuset.Range(1, 3), true)
}

// settle applies all steps to the desired partitions. Each of them must end in the phase want.
func (b *bench) settle(settled bool, want cgroup.PartitionPhase, leaves []cgroup.Path, desired ...cgroup.DesiredPartition) {
	b.Helper()
	for range 50 {
		view, err := b.fs.ReadPartitions(leaves)
		if err != nil {
			b.Fatal(err)
		}
		step := cgroup.PlanPartitions(cgroup.PartitionInput{
			Kernel: cgroup.PartitionKernel{Remote: true, Settled: settled}, Desired: desired, Former: leaves, View: view,
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
