package audit

import (
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Flags of a task (include/linux/sched.h).
const (
	flagWorker  = 0x00000020 // PF_WQ_WORKER
	flagKThread = 0x00200000 // PF_KTHREAD
	flagFixed   = 0x04000000 // PF_NO_SETAFFINITY
)

// Kind is what somebody is who is on the CPUs of others.
type Kind string

// A Process can be moved by its cgroup or its affinity; a Thread of the kernel by its
// affinity; a Worker serves unbound workqueues, of which all follow one mask; an Interrupt
// is of a device and has an affinity.
//
// Fixed threads of the kernel refuse another affinity, and PerCPU ones serve the CPU that
// they are on (ksoftirqd, migration, cpuhp, bound kworkers): the kernel's own work, which
// is counted apart.
const (
	Process   Kind = "process"
	Thread    Kind = "kernel-thread"
	Worker    Kind = "workqueue"
	Interrupt Kind = "interrupt"
	Fixed     Kind = "fixed-kernel-thread"
	PerCPU    Kind = "per-cpu-kernel-thread"
)

// unavoidable says that nobody can keep it off a CPU.
func (k Kind) unavoidable() bool { return k == Fixed || k == PerCPU }

// kindOf tells tasks apart. A thread that an administrator has bound to one CPU is no
// PerCPU one: it would follow another affinity.
func kindOf(flags uint64, allowed cpuset.Set) Kind {
	switch {
	case flags&flagKThread == 0:
		return Process // workers of io_uring and vhost, too: they are in the cgroup of who made them
	case flags&flagFixed == 0:
		return Thread
	case allowed.Len() == 1:
		return PerCPU
	case flags&flagWorker != 0:
		return Worker
	}
	return Fixed
}

// Task is what was seen of a task that is, or may be, where it is not at home.
type Task struct {
	PID, TID, Parent int
	Comm, Leader     string // its name, and that of its process
	Cgroup           string
	Flags            uint64
	Policy, Priority int
	// Allowed are all CPUs where it was allowed at any look.
	Allowed cpuset.Set
	// Ran is the CPU time that it was seen to use, in nanoseconds, by CPU.
	Ran map[int]uint64

	last Reading
}

// observe adds a look at a task. Time since the look before it counts for the CPU where
// the task is now; where it was in between is not known. Of one that was not seen before,
// all time counts if it was made after began (in units of USER_HZ after the boot): who is
// new has run nowhere else that is known of.
func (t *Task) observe(r Reading, allowed cpuset.Set, began uint64) {
	ran := uint64(0)
	switch {
	case t.last.TID != 0 && r.Run > t.last.Run:
		ran = r.Run - t.last.Run
	case t.last.TID == 0 && r.Start >= began:
		ran = r.Run
	}
	if ran > 0 {
		if t.Ran == nil {
			t.Ran = make(map[int]uint64)
		}
		t.Ran[r.CPU] += ran
	}
	t.TID, t.Parent, t.Comm, t.Flags, t.Policy, t.Priority = r.TID, r.Parent, r.Comm, r.Flags, r.Policy, r.Priority
	t.Allowed = t.Allowed.Union(allowed)
	t.last = r
}

// on is what it used of some CPUs, in nanoseconds, and where.
func (t *Task) on(cpus cpuset.Set) (ran uint64, where cpuset.Set) {
	for cpu := range cpus.All() {
		if n := t.Ran[cpu]; n > 0 {
			ran += n
			where = where.Union(cpuset.Of(cpu))
		}
	}
	return ran, where
}
