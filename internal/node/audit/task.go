package audit

import (
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Flags of a task (include/linux/sched.h).
const (
	flagWorker  = 0x00000020 // PF_WQ_WORKER
	flagKThread = 0x00200000 // PF_KTHREAD
	flagFixed   = 0x04000000 // PF_NO_SETAFFINITY
)

// Kind is the kind of a foreign task or interrupt.
type Kind string

// Kinds, with the way to move a task or interrupt off a CPU. Fixed and PerCPU are the kernel's
// own work, which is counted separately.
const (
	// Process: by its cgroup or its affinity.
	Process Kind = "process"
	// Thread: by its affinity.
	Thread Kind = "kernel-thread"
	// Worker: by the mask of all unbound workqueues.
	Worker Kind = "workqueue"
	// Interrupt: by the affinity of the device interrupt.
	Interrupt Kind = "interrupt"
	// Fixed: not at all: the thread refuses another affinity.
	Fixed Kind = "fixed-kernel-thread"
	// PerCPU: not at all: ksoftirqd, migration, cpuhp, bound kworkers.
	PerCPU Kind = "per-cpu-kernel-thread"
)

// kindOf returns Thread for a kernel thread that was bound to one CPU: it can be moved.
func kindOf(flags uint64, allowed cpuset.Set) Kind {
	switch {
	case flags&flagKThread == 0:
		return Process // including workers of io_uring and vhost, which are in the cgroup of their process
	case flags&flagFixed == 0:
		return Thread
	case allowed.Len() == 1:
		return PerCPU
	case flags&flagWorker != 0:
		return Worker
	}
	return Fixed
}

// IsMovable reports whether a task is a kernel thread with an affinity that can be set. Threads
// of interrupts follow their interrupt.
func (r Reading) IsMovable() bool {
	return r.Flags&flagKThread != 0 && r.Flags&flagFixed == 0 && !strings.HasPrefix(r.Comm, "irq/")
}

// Task holds the observations of a task that is foreign on some CPU.
type Task struct {
	Reading // of the last scan
	PID     int
	Leader  string // name of its process
	Cgroup  string
	// Allowed holds all CPUs on which any scan found it allowed.
	Allowed cpuset.Set
	// Ran is its observed CPU time in nanoseconds, by CPU.
	Ran map[int]uint64
}

// observe adds a scan of the task. The CPU time since the previous scan counts for its current
// CPU; its CPUs between the scans are unknown. For a task without a previous scan, all its CPU
// time counts if it started at or after began, in units of USER_HZ after the boot.
func (t *Task) observe(r Reading, allowed cpuset.Set, began uint64) {
	ran := uint64(0)
	switch {
	case t.TID != 0 && r.Run > t.Run:
		ran = r.Run - t.Run
	case t.TID == 0 && r.Start >= began:
		ran = r.Run
	}
	if ran > 0 {
		if t.Ran == nil {
			t.Ran = make(map[int]uint64)
		}
		t.Ran[r.CPU] += ran
	}
	t.Reading, t.Allowed = r, t.Allowed.Union(allowed)
}
