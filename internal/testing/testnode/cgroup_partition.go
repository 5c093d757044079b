package testnode

import (
	"syscall"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// PartitionRules are the ways in which kernels differ in remote partitions. The zero
// value has none, and none of their files.
type PartitionRules struct {
	Remote bool
	// Siblings says that cpuset.cpus of a sibling breaks a partition (before 7.0).
	Siblings bool
	// Flips says that a cut of an ancestor's list makes a partition a member, without
	// a word, and that clearing such a list changes nothing: but if the list is still
	// empty when the partition ends, its CPUs are lost (before 6.16; of 6.12 the releases
	// up to 6.12.107 at least, and not 6.12.117). Partitions of later kernels lose the
	// CPUs that were cut to the root.
	Flips bool
	// Stuck says that a broken partition takes no type until it has been a member,
	// Crash that the kernel dies of it (6.16 to 6.18).
	Stuck, Crash bool
	// SlowRemoval says that the CPUs of a removed partition come back after a moment,
	// and never those that are cut from a list before (6.11).
	SlowRemoval bool
	// Boot says that CPUs of isolcpus= can be in no root partition (7.0 and later).
	Boot bool
	// Deadline says that the kernel does not let a cgroup that is or was a root be
	// left without CPUs that are online: there would be no room for its deadline servers
	// (EBUSY; dl_cpuset_cpumask_can_shrink). One that is made a member just then
	// stays under that rule (7.2).
	Deadline bool
}

// PartitionsLike returns the rules of a kernel's version. Of the stable releases between
// those in which a rule was seen and was not seen, the later is taken.
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

// partition is what a cgroup has of cpuset.cpus.partition and cpuset.cpus.exclusive.
type partition struct {
	exclusive cpuset.Set
	state     cgroup.PartitionState
	held      cpuset.Set // taken from everybody else, also while it is half torn down
	common    bool       // what is held is everybody's all the same, see plugged
	flagged   bool       // the kernel's CS_CPU_EXCLUSIVE and CS_SCHED_LOAD_BALANCE
}

// Reasons of the kernel's (kernel/cgroup/cpuset.c, perr_strings).
const (
	whyList     = "Invalid cpu list in cpuset.cpus.exclusive"
	whySiblings = "Cpu list in cpuset.cpus not exclusive"
	whyHotplug  = "No cpu available due to hotplug"
	whyParent   = "Parent is not a partition root"
	whyBoot     = "partition config conflicts with housekeeping setup"
)

// removal is how many times the root is looked at before CPUs come back, with
// PartitionRules.SlowRemoval.
const removal = 2

// partitions are the tree's CPUs that the root does not have.
type partitions struct {
	nodes     map[*cgroupNode]bool // that hold any
	returning cpuset.Set           // of removed cgroups, for a moment
	returnIn  int
	leaked    cpuset.Set // until the machine boots
	crashed   bool
}

// Crashed says that something has been written of which the kernel would have died.
func (c *Cgroups) Crashed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.parted.crashed
}

// Leaked are the CPUs that the kernel has lost.
func (c *Cgroups) Leaked() cpuset.Set {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.parted.leaked
}

// rootCPUs is cpuset.cpus.effective of the root.
func (c *Cgroups) rootCPUs() cpuset.Set {
	all := c.online.Difference(c.parted.leaked).Difference(c.parted.returning)
	for n := range c.parted.nodes {
		if !n.common {
			all = all.Difference(n.held)
		}
	}
	return all
}

// settleReturning is called when somebody looks at the root.
func (c *Cgroups) settleReturning() {
	if c.parted.returnIn--; c.parted.returnIn <= 0 {
		c.parted.returning = cpuset.Set{}
	}
}

// hold gives a partition its CPUs.
func (c *Cgroups) hold(n *cgroupNode, cpus cpuset.Set) {
	n.held = cpus
	if cpus.IsEmpty() {
		n.common = false
		delete(c.parted.nodes, n)
		return
	}
	c.parted.nodes[n] = true
}

// lose follows the end of a partition: the kernel gives back what the lists grant then
// (remote_partition_disable, before 6.16).
func (c *Cgroups) lose(n *cgroupNode) {
	if c.config.Partitions.Flips && n.state.Valid() && !n.common {
		c.parted.leaked = c.parted.leaked.Union(n.ungranted(n.held))
	}
}

func (c *Cgroups) setState(n *cgroupNode, s cgroup.PartitionState) {
	if n.state != s {
		n.state = s
		c.tell(n, cgroup.Written, cgroup.FilePartition)
	}
}

// granted is what the lists from the top down to n have in common.
func (n *cgroupNode) granted() cpuset.Set { return n.exclusive.Difference(n.ungranted(n.exclusive)) }

// ungranted are those CPUs that a list above n lacks.
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
		c.lose(n)
		c.hold(n, cpuset.Set{})
		c.setState(n, cgroup.PartitionState{Type: want})
		n.flagged = n.flagged && !c.roomFor(n, n.exclusive, n.cpus)
		return nil
	case cgroup.RootPartition, cgroup.IsolatedPartition:
	default:
		return syscall.EINVAL
	}
	if torn := n.state.Invalid && n.state.Why == ""; torn && c.config.Partitions.Crash {
		c.parted.crashed = true
		return syscall.EIO
	} else if torn && c.config.Partitions.Stuck {
		return nil
	}
	if n.state.Valid() {
		n.flagged = want == cgroup.RootPartition
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
		n.flagged = want == cgroup.RootPartition // isolated ones are not balanced, and so not asked
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
	if !c.roomFor(n, cpus, n.cpus) {
		return syscall.EBUSY
	}
	c.parted.leaked = c.parted.leaked.Union(c.parted.returning.Intersection(n.exclusive.Difference(cpus)))
	cut := n.exclusive.Difference(cpus)
	n.exclusive = cpus
	if c.config.Partitions.Flips {
		c.flip(n, n, cut)
	} else {
		c.regrant(n)
	}
	return nil
}

// roomFor says that the kernel lets a cgroup have these lists (validate_change).
func (c *Cgroups) roomFor(n *cgroupNode, exclusive, cpus cpuset.Set) bool {
	if exclusive.IsEmpty() {
		exclusive = cpus
	}
	return !c.config.Partitions.Deadline || !n.flagged || exclusive.Overlaps(c.online)
}

// regrant follows a change of a list in a cgroup and all below it.
func (c *Cgroups) regrant(n *cgroupNode) {
	if n.state.Valid() {
		cpus, root := n.granted(), c.rootCPUs().Union(n.held)
		why := ""
		switch {
		case cpus.IsEmpty() && !n.exclusive.IsEmpty(): // it is not remote any more
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

// flip is regrant with PartitionRules.Flips: of the cgroups below the changed one those
// end that have what was cut from its list, unless that is empty now
// (remote_partition_check).
func (c *Cgroups) flip(n, changed *cgroupNode, cut cpuset.Set) {
	switch {
	case !n.state.Valid():
	case n == changed:
		c.lose(n)
		c.regrant(n)
	case !changed.exclusive.IsEmpty() && n.held.Overlaps(cut):
		c.hold(n, cpuset.Set{})
		c.setState(n, cgroup.PartitionState{Type: cgroup.MemberPartition})
	}
	for _, child := range n.children {
		c.flip(child, changed, cut)
	}
}

// requested follows a write of cpuset.cpus: it breaks what siblings have for
// themselves, half way.
func (c *Cgroups) requested(n *cgroupNode) {
	if !c.config.Partitions.Siblings || n.parent == nil {
		return
	}
	for _, s := range n.parent.children {
		if s != n && s.state.Valid() && s.held.Overlaps(n.cpus) {
			c.setState(s, cgroup.PartitionState{Type: s.state.Type, Invalid: true})
		}
	}
}

// plugged follows a change of the CPUs that are online. Where all that are left are in
// partitions they are everybody's from then on (cpuset_handle_hotplug, by reading: 6.12
// does not let the last one go, and 7.2 says that the partition is invalid besides).
func (c *Cgroups) plugged() {
	if len(c.parted.nodes) > 0 && c.rootCPUs().IsEmpty() {
		for n := range c.parted.nodes {
			n.common = true
		}
		c.parted.leaked, c.parted.returning = cpuset.Set{}, cpuset.Set{}
	}
	for n := range c.parted.nodes {
		if n.state.Valid() && !n.held.Overlaps(c.online) {
			c.hold(n, cpuset.Set{})
			c.setState(n, cgroup.PartitionState{Type: n.state.Type, Invalid: true, Why: whyHotplug})
		}
	}
}

// dissolve follows the removal of a cgroup.
func (c *Cgroups) dissolve(n *cgroupNode) {
	switch {
	case n.held.IsEmpty(), n.common:
	case n.state.Valid() && c.config.Partitions.Flips && !n.ungranted(n.held).IsEmpty():
		c.lose(n)
	case n.state.Invalid: // half torn down: nobody knows of them any more
		c.parted.leaked = c.parted.leaked.Union(n.held)
	case c.config.Partitions.SlowRemoval:
		c.parted.returning, c.parted.returnIn = c.parted.returning.Union(n.held), removal
	}
	c.hold(n, cpuset.Set{})
	for _, child := range n.children {
		c.dissolve(child)
	}
}
