package testnode

import (
	"syscall"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// PartitionRules describes how a kernel treats remote partitions. The zero value is a kernel
// without remote partitions and their files.
type PartitionRules struct {
	Remote bool
	// Siblings reports whether cpuset.cpus of a sibling breaks a partition (before 7.0).
	Siblings bool
	// Flips reports whether a cut of an ancestor's list silently makes a partition a member. An
	// emptied list changes nothing at first. But if it is still empty at the end of the
	// partition, the kernel loses the CPUs. Kernels before 6.16 do so, of 6.12 the releases up to
	// at least 6.12.107, and not 6.12.117. On later kernels, a partition returns the cut CPUs to
	// the root.
	Flips bool
	// Stuck reports whether a broken partition takes no type before it has been a member. Crash
	// reports whether that write crashes the kernel (6.16 to 6.18).
	Stuck, Crash bool
	// SlowRemoval reports whether the root gets the CPUs of a removed partition after a delay. If
	// they are cut from a list before, it never gets them (6.11).
	SlowRemoval bool
	// Boot reports whether a root partition cannot contain CPUs of isolcpus= (7.0 and later).
	Boot bool
	// Deadline reports whether a cgroup that is or was a root must keep an online CPU (7.0 and
	// later). Its deadline servers need one, so that the kernel returns EBUSY
	// (dl_cpuset_cpumask_can_shrink). The rule still applies to a cgroup that just became a
	// member (seen in 7.2).
	Deadline bool
}

// PartitionsLike returns the rules of a kernel version. If a rule changed between two tested
// stable releases, the change counts from the later one.
func PartitionsLike(major, minor, patch int) PartitionRules {
	before := func(m, n int) bool { return major < m || major == m && minor < n }
	if before(6, 11) {
		return PartitionRules{}
	}
	return PartitionRules{
		Remote:      true,
		Siblings:    before(7, 0),
		Flips:       before(6, 16) && (major != 6 || minor != 12 || patch < 117),
		Stuck:       before(6, 16),
		Crash:       !before(6, 16) && before(6, 19),
		SlowRemoval: before(6, 12),
		Deadline:    !before(7, 0),
		Boot:        !before(7, 0),
	}
}

// partition holds the state of cpuset.cpus.partition and cpuset.cpus.exclusive.
type partition struct {
	exclusive     cpuset.Set
	state         cgroup.PartitionState
	held          cpuset.Set // taken from all other cgroups, also while half removed
	common        bool       // all cgroups may use the held CPUs, see applyHotplug
	exclusiveFlag bool       // CS_CPU_EXCLUSIVE and CS_SCHED_LOAD_BALANCE of the kernel
}

// Reasons in the kernel's words (kernel/cgroup/cpuset.c, perr_strings).
const (
	whyList     = "Invalid cpu list in cpuset.cpus.exclusive"
	whySiblings = "Cpu list in cpuset.cpus not exclusive"
	whyHotplug  = "No cpu available due to hotplug"
	whyParent   = "Parent is not a partition root"
	whyBoot     = "partition config conflicts with housekeeping setup"
)

// removalReads is the number of reads of the root after which CPUs return, with
// PartitionRules.SlowRemoval.
const removalReads = 2

// partitions holds the CPUs that the root does not have.
type partitions struct {
	nodes     map[*cgroupNode]bool // nodes that hold CPUs
	returning cpuset.Set           // of removed cgroups, until they return
	returnIn  int
	leaked    cpuset.Set // lost until the machine boots
	crashed   bool
}

// Crashed reports whether a write would have crashed the kernel.
func (c *Cgroups) Crashed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.partitions.crashed
}

// Leaked returns the CPUs that the kernel has lost.
func (c *Cgroups) Leaked() cpuset.Set {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.partitions.leaked
}

// rootCPUs returns cpuset.cpus.effective of the root.
func (c *Cgroups) rootCPUs() cpuset.Set {
	all := c.online.Difference(c.partitions.leaked).Difference(c.partitions.returning)
	if !c.limit.IsEmpty() {
		all = all.Intersection(c.limit)
	}
	for n := range c.partitions.nodes {
		if !n.common {
			all = all.Difference(n.held)
		}
	}
	return all
}

// countRootRead counts a read of the root.
func (c *Cgroups) countRootRead() {
	if c.partitions.returnIn--; c.partitions.returnIn <= 0 {
		c.partitions.returning = cpuset.Set{}
	}
}

// hold sets the CPUs of a partition.
func (c *Cgroups) hold(n *cgroupNode, cpus cpuset.Set) {
	n.held = cpus
	if cpus.IsEmpty() {
		n.common = false
		delete(c.partitions.nodes, n)
		return
	}
	c.partitions.nodes[n] = true
}

// loseCPUs handles the end of a partition: the kernel returns only CPUs that the lists grant at
// that moment (remote_partition_disable, before 6.16).
func (c *Cgroups) loseCPUs(n *cgroupNode) {
	if c.config.Partitions.Flips && n.state.Valid() && !n.common {
		c.partitions.leaked = c.partitions.leaked.Union(n.ungranted(n.held))
	}
}

func (c *Cgroups) setState(n *cgroupNode, s cgroup.PartitionState) {
	if n.state != s {
		n.state = s
		c.notifyWatchers(n, cgroup.Written, cgroup.FilePartition)
	}
}

// granted returns the CPUs in all lists from the top down to n.
func (n *cgroupNode) granted() cpuset.Set { return n.exclusive.Difference(n.ungranted(n.exclusive)) }

// ungranted returns the cpus that are missing in a list above n.
func (n *cgroupNode) ungranted(cpus cpuset.Set) (lacking cpuset.Set) {
	for a := n.parent; a.parent != nil; a = a.parent {
		lacking = lacking.Union(cpus.Difference(a.exclusive))
	}
	return lacking
}

// storePartition follows update_prstate.
func (c *Cgroups) storePartition(n *cgroupNode, value string) error {
	want := cgroup.PartitionType(value)
	switch want {
	case cgroup.MemberPartition:
		c.loseCPUs(n)
		c.hold(n, cpuset.Set{})
		c.setState(n, cgroup.PartitionState{Type: want})
		n.exclusiveFlag = n.exclusiveFlag && !c.acceptsLists(n, n.exclusive, n.cpus)
		return nil
	case cgroup.RootPartition, cgroup.IsolatedPartition:
	default:
		return syscall.EINVAL
	}
	if torn := n.state.Invalid && n.state.Why == ""; torn && c.config.Partitions.Crash {
		c.partitions.crashed = true
		return syscall.EIO
	} else if torn && c.config.Partitions.Stuck {
		return nil
	}
	if n.state.Valid() {
		n.exclusiveFlag = want == cgroup.RootPartition
		c.setState(n, cgroup.PartitionState{Type: want})
		return nil
	}
	c.hold(n, cpuset.Set{})
	cpus := n.granted()
	why := ""
	switch root := c.rootCPUs(); {
	case n.parent.state.Valid():
		why = whyParent
	case c.config.Partitions.Siblings && n.anySibling(func(s *cgroupNode) bool { return s.cpus.Overlaps(n.exclusive) }):
		why = whySiblings
	case cpus.IsEmpty(), root.IsSubsetOf(cpus), !cpus.Intersection(c.online).IsSubsetOf(root):
		why = whyList
	case !cpus.Overlaps(c.online):
		why = whyHotplug
	case c.config.Partitions.Boot && want == cgroup.RootPartition && cpus.Overlaps(c.config.Isolated):
		why = whyBoot
	default:
		c.hold(n, cpus)
		n.exclusiveFlag = want == cgroup.RootPartition // the kernel balances no isolated partition, and so does not check it
	}
	c.setState(n, cgroup.PartitionState{Type: want, Invalid: why != "", Why: why})
	return nil
}

func (n *cgroupNode) anySibling(is func(*cgroupNode) bool) bool {
	for _, s := range n.parent.children {
		if s != n && is(s) {
			return true
		}
	}
	return false
}

// storeExclusive follows update_exclusive_cpumask and validate_change.
func (c *Cgroups) storeExclusive(n *cgroupNode, value string) error {
	var cpus cpuset.Set
	if err := parseSet(&cpus, value, c.config.Possible, c.config.Possible.Last()+1); err != nil {
		return err
	}
	if n.anySibling(func(s *cgroupNode) bool {
		switch {
		case !cpus.IsEmpty() && !s.exclusive.IsEmpty():
			return cpus.Overlaps(s.exclusive)
		case !cpus.IsEmpty():
			return !s.cpus.IsEmpty() && s.cpus.IsSubsetOf(cpus)
		}
		return !s.exclusive.IsEmpty() && !n.cpus.IsEmpty() && n.cpus.IsSubsetOf(s.exclusive)
	}) {
		return syscall.EINVAL
	}
	if !c.acceptsLists(n, cpus, n.cpus) {
		return syscall.EBUSY
	}
	c.partitions.leaked = c.partitions.leaked.Union(c.partitions.returning.Intersection(n.exclusive.Difference(cpus)))
	cut := n.exclusive.Difference(cpus)
	n.exclusive = cpus
	if c.config.Partitions.Flips {
		c.flip(n, n, cut)
	} else {
		c.regrant(n)
	}
	return nil
}

// acceptsLists reports whether the kernel accepts these lists for a cgroup (validate_change).
func (c *Cgroups) acceptsLists(n *cgroupNode, exclusive, cpus cpuset.Set) bool {
	if exclusive.IsEmpty() {
		exclusive = cpus
	}
	return !c.config.Partitions.Deadline || !n.exclusiveFlag || exclusive.Overlaps(c.online)
}

// regrant handles a change of a list in a cgroup and its descendants.
func (c *Cgroups) regrant(n *cgroupNode) {
	if n.state.Valid() {
		cpus, root := n.granted(), c.rootCPUs().Union(n.held)
		why := ""
		switch {
		case cpus.IsEmpty() && !n.exclusive.IsEmpty(): // no longer a remote partition
			why = whyParent
		case cpus.IsEmpty(), root.IsSubsetOf(cpus), !cpus.Intersection(c.online).IsSubsetOf(root):
			why = whyList
		}
		if c.hold(n, cpus); why != "" {
			c.hold(n, cpuset.Set{})
			c.setState(n, cgroup.PartitionState{Type: n.state.Type, Invalid: true, Why: why})
		}
	}
	for _, child := range n.children {
		c.regrant(child)
	}
}

// flip is regrant with PartitionRules.Flips. It ends the partitions below the changed cgroup that
// hold a cut CPU, unless the list is empty now (remote_partition_check).
func (c *Cgroups) flip(n, changed *cgroupNode, cut cpuset.Set) {
	switch {
	case !n.state.Valid():
	case n == changed:
		c.loseCPUs(n)
		c.regrant(n)
	case !changed.exclusive.IsEmpty() && n.held.Overlaps(cut):
		c.hold(n, cpuset.Set{})
		c.setState(n, cgroup.PartitionState{Type: cgroup.MemberPartition})
	}
	for _, child := range n.children {
		c.flip(child, changed, cut)
	}
}

// breakSiblings handles a write of cpuset.cpus: it half removes the partitions of siblings with
// these CPUs.
func (c *Cgroups) breakSiblings(n *cgroupNode) {
	if !c.config.Partitions.Siblings || n.parent == nil {
		return
	}
	for _, s := range n.parent.children {
		if s != n && s.state.Valid() && s.held.Overlaps(n.cpus) {
			c.setState(s, cgroup.PartitionState{Type: s.state.Type, Invalid: true})
		}
	}
}

// applyHotplug handles a change of the online CPUs. If partitions hold all of them, all cgroups
// may use them from then on. The rule comes from reading cpuset_handle_hotplug, not from a test:
// 6.12 does not offline the last CPU, and 7.2 also marks the partition as invalid.
func (c *Cgroups) applyHotplug() {
	if len(c.partitions.nodes) > 0 && c.rootCPUs().IsEmpty() {
		for n := range c.partitions.nodes {
			n.common = true
		}
		c.partitions.leaked, c.partitions.returning = cpuset.Set{}, cpuset.Set{}
	}
	for n := range c.partitions.nodes {
		if n.state.Valid() && !n.held.Overlaps(c.online) {
			c.hold(n, cpuset.Set{})
			c.setState(n, cgroup.PartitionState{Type: n.state.Type, Invalid: true, Why: whyHotplug})
		}
	}
}

// removePartitions handles the removal of a cgroup.
func (c *Cgroups) removePartitions(n *cgroupNode) {
	switch {
	case n.held.IsEmpty(), n.common:
	case n.state.Valid() && c.config.Partitions.Flips && !n.ungranted(n.held).IsEmpty():
		c.loseCPUs(n)
	case n.state.Invalid: // half removed: no cgroup returns the CPUs
		c.partitions.leaked = c.partitions.leaked.Union(n.held)
	case c.config.Partitions.SlowRemoval:
		c.partitions.returning, c.partitions.returnIn = c.partitions.returning.Union(n.held), removalReads
	}
	c.hold(n, cpuset.Set{})
	for _, child := range n.children {
		c.removePartitions(child)
	}
}
