package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Measurement is the result of one run. Durations are in nanoseconds.
type Measurement struct {
	// CPU is the CPU of the measurement, and Allowed lists the CPUs that it could have
	// used.
	CPU     int    `json:"cpu"`
	Allowed string `json:"allowed"`
	// Duration is the time of the run, and Looks the number of reads of the clock.
	Duration time.Duration `json:"durationNs"`
	Looks    uint64        `json:"looks"`
	// The gaps between two looks: most take as long as a look takes.
	P50   time.Duration `json:"p50Ns"`
	P999  time.Duration `json:"p999Ns"`
	P9999 time.Duration `json:"p9999Ns"`
	Max   time.Duration `json:"maxNs"`
	// Over10us and Over100us count gaps, more or less.
	Over10us  uint64 `json:"over10us"`
	Over100us uint64 `json:"over100us"`
	// Events holds the kernel's counts on the CPU, and of the thread.
	Events []Event `json:"events"`
	// Notes lists the circumstances that spoil the result.
	Notes []string `json:"notes,omitempty"`
}

// measure spins on one CPU and looks at the clock all the time. cpu is -1 for the last
// of those that are allowed.
func measure(cpu int, duration time.Duration) (Measurement, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	debug.SetGCPercent(-1)
	m := Measurement{CPU: cpu}
	allowed, err := affinity()
	if err != nil {
		return m, err
	}
	if cpu < 0 {
		m.CPU = allowed.Last()
	}
	m.Allowed = allowed.String()
	if !allowed.Contains(m.CPU) {
		return m, fmt.Errorf("CPU %d is not one of the allowed CPUs %s", m.CPU, allowed)
	}
	if err := settle(m.CPU, allowed); err != nil {
		m.Notes = append(m.Notes, err.Error())
	}
	proc := os.DirFS("/proc")
	before, err := takeSample(proc, unix.Gettid())
	if err != nil {
		return m, err
	}
	h := new(histogram)
	m.Duration = spin(h, duration)
	after, err := takeSample(proc, unix.Gettid())
	if err != nil {
		return m, err
	}
	m.Looks, m.Events = h.n, events(before, after, m.CPU)
	m.P50, m.P999, m.P9999, m.Max = h.quantile(0.5), h.quantile(0.999), h.quantile(0.9999), time.Duration(h.max)
	m.Over10us, m.Over100us = h.above(10*time.Microsecond), h.above(100*time.Microsecond)
	return m, nil
}

// spin fills the histogram. Go cannot preempt the loop: its calls are inlined or check no
// stack, and asynchronous preemption is off (main).
func spin(h *histogram, duration time.Duration) time.Duration {
	begin := nanotime()
	last, end := begin, begin+int64(duration)
	for last < end {
		now := nanotime()
		h.add(uint64(now - last))
		last = now
	}
	return time.Duration(last - begin)
}

// affinity are the CPUs that the process may use.
func affinity() (cpuset.Set, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return cpuset.Set{}, fmt.Errorf("sched_getaffinity: %w", err)
	}
	var cpus []int
	for cpu := range len(set) * strconv.IntSize {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpuset.Of(cpus...), nil
}

// settle puts this thread on the CPU, and the others of the program, which are Go's own,
// off it.
func settle(cpu int, allowed cpuset.Set) error {
	var own, others unix.CPUSet
	own.Set(cpu)
	for other := range allowed.All() {
		if other != cpu {
			others.Set(other)
		}
	}
	if err := unix.SchedSetaffinity(0, &own); err != nil {
		return fmt.Errorf("CPU %d: sched_setaffinity: %w", cpu, err)
	}
	if others.Count() == 0 {
		return fmt.Errorf("CPU %d is the only one that is allowed: Go's own threads run there, too, some 100 times a second; give the program two CPUs", cpu)
	}
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, t := range threads {
		if tid, err := strconv.Atoi(t.Name()); err == nil && tid != unix.Gettid() {
			if err := unix.SchedSetaffinity(tid, &others); err != nil {
				return fmt.Errorf("thread %d of this program stays on CPU %d: %w", tid, cpu, err)
			}
		}
	}
	return nil
}
