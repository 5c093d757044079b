package schedwatch

import (
	"errors"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/schedwatch/account"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// ErrUnavailable reports that the kernel does not load the program for this process: a feature of
// the kernel is missing, or a permission.
var ErrUnavailable = errors.New("live audit is unavailable")

// Owner is a container, pod or unit with exclusive CPUs.
type Owner struct {
	// ID identifies the owner in Task.Owner. If several owners share a CPU, the ID of the first one counts.
	ID   string
	CPUs cpuset.Set
	// Cgroups holds paths below the cgroup root, without a leading slash. A task in one of these
	// cgroups, or below it, belongs to the owner.
	Cgroups []string
}

// Kind is the kind of a foreign task.
type Kind uint8

// Kinds of foreign tasks.
const (
	// User is a task of a process.
	User Kind = iota
	// BoundKernel is a kernel thread that can run on this CPU only: ksoftirqd, migration, bound kworkers.
	BoundKernel
	// OtherKernel is a kernel thread that can run on other CPUs, too.
	OtherKernel
	// Unknown is a task in the root cgroup that had ended before its kind was read. Only kernels
	// without BTF have such tasks.
	Unknown
	// Kinds is the number of kinds.
	Kinds = 4
)

// Task is a foreign task on a CPU, or all foreign tasks of one cgroup, kind and command there.
type Task struct {
	CPU  int
	Kind Kind
	// PID and TGID are the numbers of the last such thread and of its process, in the kernel's PID namespace.
	PID, TGID int
	Command   string
	CgroupID  uint64
	// Cgroup is the path below the cgroup root, without a leading slash. It is empty for the root
	// (CgroupID is 1), and for a cgroup that was removed before its path was read.
	Cgroup   string
	Time     time.Duration
	Switches uint64 // switch-outs; 0 in Reading.Running
	// Owner is the ID of the owner that the CPU had when the task left it. Only Next sets it. It is empty if
	// the CPU has had many owners since.
	Owner string
}

// CPU holds the counts of a CPU since Open. They never decrease.
type CPU struct {
	CPU      int
	Watched  time.Duration // time with an owner
	Switches uint64        // switches while it had an owner, with the owner's tasks and the idle task
	// Foreign holds CPU time and switch-outs of foreign tasks by Kind. The time of Reading.Running is included.
	Foreign [Kinds]Count
}

// Count is CPU time and a number of switch-outs.
type Count = account.Count

// Reading holds the results of Program.Read.
type Reading struct {
	// CPUs holds each CPU that has or had an owner, in order.
	CPUs []CPU
	// Tasks holds the foreign tasks that were switched out since the previous reading without an error. At most
	// 4,096 different ones have a row; Lost is the number of switches without a row since Open.
	Tasks []Task
	Lost  uint64
	// Running holds foreign tasks that have run for over a second without a switch. A later
	// reading has them in Tasks, with their whole time.
	Running []Task
	// Runs and RunTime are the number of runs of the program and their time since EnableStatistics.
	Runs    uint64
	RunTime time.Duration
	// BTF reports whether the program uses the kernel's type information. If not, it runs on the
	// tracepoint, and the kinds of tasks are read from /proc.
	BTF bool
}
