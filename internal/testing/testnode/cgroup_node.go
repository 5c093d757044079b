package testnode

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// cgroupNode is one cgroup. The values of a controller are valid only while the parent enables
// the controller.
type cgroupNode struct {
	path     cgroup.Path
	parent   *cgroupNode
	children map[string]*cgroupNode
	enabled  map[string]bool // cgroup.subtree_control
	tasks    []int

	cpus, mems cpuset.Set // empty: inherited
	partition
	weight        uint64
	idle          bool
	quota, period int64 // quota -1: max
}

// Values of a new cgroup (kernel/sched/core.c, sched.h).
const (
	defaultWeight = 100
	defaultPeriod = 100_000
)

func newCgroupNode(parent *cgroupNode, at cgroup.Path) *cgroupNode {
	n := &cgroupNode{path: at, parent: parent, children: map[string]*cgroupNode{}, enabled: map[string]bool{}}
	n.reset("cpuset")
	n.reset("cpu")
	return n
}

// reset sets a controller's values to their defaults, as at a disable and enable of the
// controller.
func (n *cgroupNode) reset(controller string) {
	if controller == "cpuset" {
		n.cpus, n.mems, n.partition = cpuset.Set{}, cpuset.Set{}, partition{}
		return
	}
	n.weight, n.idle, n.quota, n.period = defaultWeight, false, -1, defaultPeriod
}

func (n *cgroupNode) has(controller string) bool {
	return n.parent == nil || n.parent.enabled[controller]
}

func (n *cgroupNode) populated() bool {
	if len(n.tasks) > 0 {
		return true
	}
	for _, child := range n.children {
		if child.populated() {
			return true
		}
	}
	return false
}

// effective returns cpuset.cpus.effective (update_cpumasks_hier). For a partition it is the CPUs
// that the partition holds. Otherwise it is the part of the request that the parent has, or all
// of the parent's CPUs if that part is empty.
func (c *Cgroups) effective(n *cgroupNode) cpuset.Set {
	switch {
	case n.parent == nil:
		return c.rootCPUs()
	case n.state.Valid():
		return n.held.Intersection(c.online)
	}
	parent := c.effective(n.parent)
	if own := n.cpus.Intersection(parent); n.has("cpuset") && !own.IsEmpty() {
		return own
	}
	return parent
}

// effectiveMems returns cpuset.mems.effective (update_nodemasks_hier).
func (c *Cgroups) effectiveMems(n *cgroupNode) cpuset.Set {
	if n.parent == nil {
		return c.config.Nodes
	}
	parent := c.effectiveMems(n.parent)
	if own := n.mems.Intersection(parent); n.has("cpuset") && !own.IsEmpty() {
		return own
	}
	return parent
}

// show returns the content of a file, or the error of open(2).
func (c *Cgroups) show(n *cgroupNode, file string) (string, error) {
	isRoot := n.parent == nil
	switch file {
	case "cgroup.controllers":
		return n.list(func(controller string) bool { return n.has(controller) }), nil
	case "cgroup.subtree_control":
		return n.list(func(controller string) bool { return n.enabled[controller] }), nil
	case "cgroup.procs", "cgroup.threads":
		var b strings.Builder
		for _, pid := range n.tasks {
			fmt.Fprintln(&b, pid)
		}
		return b.String(), nil
	case "cgroup.events":
		if isRoot {
			return "", syscall.ENOENT
		}
		return fmt.Sprintf("populated %d\nfrozen 0\n", digit(n.populated())), nil
	}
	controller, _, _ := strings.Cut(file, ".")
	if !n.has(controller) {
		return "", syscall.ENOENT
	}
	switch file {
	case "cpuset.cpus.effective":
		if isRoot {
			defer c.countRootRead()
		}
		return c.effective(n).String() + "\n", nil
	case "cpuset.mems.effective":
		return c.effectiveMems(n).String() + "\n", nil
	}
	switch {
	case isRoot && !c.limit.IsEmpty() && file == "cpuset.cpus":
		return c.limit.String() + "\n", nil
	case isRoot:
		return "", syscall.ENOENT
	}
	switch file {
	case "cpuset.cpus":
		return n.cpus.String() + "\n", nil
	case "cpuset.mems":
		return n.mems.String() + "\n", nil
	case cgroup.FileExclusive, cgroup.FilePartition:
		if !c.config.Partitions.Remote {
			return "", syscall.ENOENT
		}
		if file == cgroup.FilePartition {
			return n.state.String() + "\n", nil
		}
		return n.exclusive.String() + "\n", nil
	case "cpu.weight":
		if n.idle {
			return fmt.Sprintln(c.config.IdleWeight), nil
		}
		return fmt.Sprintln(n.weight), nil
	case "cpu.idle":
		return fmt.Sprintln(digit(n.idle)), nil
	case "cpu.max":
		if n.quota < 0 {
			return fmt.Sprintf("max %d\n", n.period), nil
		}
		return fmt.Sprintf("%d %d\n", n.quota, n.period), nil
	}
	return "", syscall.ENOENT
}

func (n *cgroupNode) list(include func(string) bool) string {
	var names []string
	for _, controller := range []string{"cpuset", "cpu"} {
		if include(controller) {
			names = append(names, controller)
		}
	}
	return strings.Join(names, " ") + "\n"
}

func digit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// store writes value, without surrounding blanks, like write(2).
func (c *Cgroups) store(n *cgroupNode, file, value string) error {
	switch file {
	case "cgroup.subtree_control":
		return n.storeControl(value)
	case "cgroup.procs":
		pid, err := strconv.Atoi(value)
		if err != nil {
			return syscall.EINVAL
		}
		c.addTask(n, pid)
		return nil
	case "cpuset.cpus":
		before := c.effective(n)
		err := c.storeSet(n, &n.cpus, value, c.config.Possible, c.config.Possible.Last()+1)
		c.moveTasks(n, before)
		if err == nil {
			c.breakSiblings(n)
		}
		return err
	case cgroup.FileExclusive:
		return c.storeExclusive(n, value)
	case cgroup.FilePartition:
		return c.storePartition(n, value)
	case "cpuset.mems":
		return c.storeSet(n, &n.mems, value, c.config.Nodes, maxNodes)
	case "cpu.weight":
		return n.storeWeight(value)
	case "cpu.idle":
		return n.storeIdle(value)
	case "cpu.max":
		return n.storeMax(value)
	}
	return syscall.EINVAL // a read-only file
}

// storeControl writes cgroup.subtree_control: "+cpuset -cpu".
func (n *cgroupNode) storeControl(value string) error {
	for word := range strings.FieldsSeq(value) {
		controller := strings.TrimLeft(word, "+-")
		if controller != "cpuset" && controller != "cpu" || len(word) != len(controller)+1 {
			return syscall.EINVAL
		}
		switch enable := word[0] == '+'; {
		case enable && !n.has(controller):
			return syscall.ENOENT
		case enable:
			n.enabled[controller] = true
			continue
		}
		for _, child := range n.children {
			if child.enabled[controller] {
				return syscall.EBUSY
			}
		}
		delete(n.enabled, controller)
		for _, child := range n.children {
			child.reset(controller)
		}
	}
	return nil
}

// maxNodes is MAX_NUMNODES in the kernels of distributions.
const maxNodes = 1024

// storeSet follows update_cpumask, update_nodemask and validate_change of
// kernel/cgroup/cpuset.c.
func (c *Cgroups) storeSet(n *cgroupNode, set *cpuset.Set, value string, possible cpuset.Set, limit int) error {
	var members cpuset.Set
	if err := parseSet(&members, value, possible, limit); err != nil {
		return err
	}
	if members.IsEmpty() && !set.IsEmpty() && n.populated() && !c.config.ClearPopulated {
		return syscall.ENOSPC
	}
	if set == &n.cpus && !c.acceptsLists(n, n.exclusive, members) {
		return syscall.EBUSY
	}
	*set = members
	return nil
}

// parseSet parses a written list.
func parseSet(set *cpuset.Set, value string, possible cpuset.Set, limit int) error {
	members, err := cpuset.ParseKernel(value, limit)
	switch {
	case errors.Is(err, cpuset.ErrRange):
		return syscall.ERANGE
	case errors.Is(err, cpuset.ErrOverflow):
		return syscall.EOVERFLOW
	case err != nil:
		return syscall.EINVAL
	case !members.IsSubsetOf(possible):
		return syscall.EINVAL
	}
	*set = members
	return nil
}

func (n *cgroupNode) storeWeight(value string) error {
	weight, err := strconv.ParseUint(value, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return syscall.ERANGE
	case err != nil:
		return syscall.EINVAL
	case weight < 1 || weight > 10000:
		return syscall.ERANGE
	case n.idle:
		return syscall.EINVAL
	}
	n.weight = weight
	return nil
}

func (n *cgroupNode) storeIdle(value string) error {
	switch value {
	case "0":
		n.idle, n.weight = false, defaultWeight
	case "1":
		n.idle = true
	default:
		return syscall.EINVAL
	}
	return nil
}

// storeMax follows cpu_max_write and tg_set_bandwidth of kernel/sched/core.c.
func (n *cgroupNode) storeMax(value string) error {
	const (
		minQuota, minPeriod, maxPeriod = 1000, 1000, 1_000_000
	)
	quota, period := int64(-1), n.period
	words := strings.Fields(value)
	if len(words) < 1 || len(words) > 2 {
		return syscall.EINVAL
	}
	var err error
	if words[0] != "max" {
		if quota, err = strconv.ParseInt(words[0], 10, 64); err != nil || quota < minQuota {
			return syscall.EINVAL
		}
	}
	if len(words) == 2 {
		if period, err = strconv.ParseInt(words[1], 10, 64); err != nil || period < minPeriod || period > maxPeriod {
			return syscall.EINVAL
		}
	}
	n.quota, n.period = quota, period
	return nil
}
