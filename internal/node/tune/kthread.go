package tune

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/internal/node/audit"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Affinity sets the CPUs of a task. sched_getaffinity(2) is no counterpart: it omits offline
// CPUs, and a restored thread would lose them.
type Affinity func(pid int, cpus cpuset.Set) error

type kthreads struct {
	proc, sys Dir
	affinity  Affinity
}

// KThreads returns the source of the affinities of kernel threads. It omits threads that the
// kernel has bound, and threads of interrupts.
func KThreads(proc, sys Dir, a Affinity) Source { return kthreads{proc, sys, a} }

func (s kthreads) Kinds() []Kind { return []Kind{KThread} }

func (s kthreads) Read(context.Context) ([]Observed, error) {
	pids, err := s.proc.numbers(".")
	var all []Observed
	errs := []error{err}
	boot := defaultExcept(s.sys, "nohz_full")
	for _, name := range pids {
		o, movable, err := s.readThread(name)
		switch {
		case isGone(err):
		case err != nil:
			errs = append(errs, fmt.Errorf("process %s: %w", name, err))
		case movable:
			o.Default = boot
			all = append(all, o)
		}
	}
	return all, errors.Join(errs...)
}

// readThread reads one process. It reports whether that is a movable kernel thread.
func (s kthreads) readThread(name string) (o Observed, movable bool, err error) {
	text, err := s.proc.Read(name + "/stat")
	if err != nil {
		return o, false, err
	}
	t, err := audit.ParseStat([]byte(text))
	if err != nil || !t.IsMovable() {
		return o, false, err
	}
	if text, err = s.proc.Read(name + "/status"); err != nil {
		return o, false, err
	}
	cpus, err := audit.ParseAllowed([]byte(text))
	if err != nil {
		return o, false, err
	}
	id := strconv.FormatUint(t.Start, 10) + " " + t.Comm
	return Observed{Knob: Knob{KThread, name}, ID: id, Label: t.Comm, Value: cpus.String()}, true, nil
}

func (s kthreads) Write(_ context.Context, k Knob, value string) error {
	pid, err := strconv.Atoi(k.Name)
	if err != nil {
		return err
	}
	cpus, err := cpuset.Parse(value)
	if err != nil {
		return err
	}
	return s.affinity(pid, cpus)
}

// SetAffinity is an [Affinity] with sched_setaffinity(2).
func SetAffinity(pid int, cpus cpuset.Set) error {
	mask := unix.NewCPUSet(cpuset.MaxCPUs)
	for cpu := range cpus.All() {
		mask.Set(cpu)
	}
	return unix.SchedSetaffinityDynamic(pid, mask)
}
