package telemetry

import "github.com/cpupoold/cpupoold/pkg/cpuset"

// Audit holds the results of the scans for tasks and interrupts on CPUs of other owners.
type Audit struct {
	Pools []AuditPool
	// Scans and Failed count scans since the daemon's start. Seconds is their CPU time.
	Scans, Failed uint64
	Seconds       float64
}

// AuditPool holds the results for a pool. Of the guaranteed pool, exclusive CPUs count.
type AuditPool struct {
	PoolName
	// Known reports whether the pool has such CPUs. If not, only Others and Interrupts are valid.
	Known bool
	// Score is the share, 0..1, of CPU time since the previous scan without foreign tasks.
	Score float64
	// ExposedTasks and ExposedInterrupts count foreign tasks and interrupts that may run here now.
	ExposedTasks, ExposedInterrupts int
	// Others is the CPU time of foreign tasks in seconds, and Interrupts the number of device
	// interrupts, both since the daemon's start.
	Others     float64
	Interrupts uint64
}

func (e emitter) audit(a *Audit) {
	if a == nil {
		return
	}
	e.emit(auditScans, float64(a.Scans), string(OK))
	e.emit(auditScans, float64(a.Failed), string(Failed))
	e.emit(auditSeconds, a.Seconds)
	for _, p := range a.Pools {
		e.emit(auditOthers, p.Others, p.Pool, p.Type)
		e.emit(auditInterrupts, float64(p.Interrupts), p.Pool, p.Type)
		if p.Known {
			e.emit(auditScore, p.Score, p.Pool, p.Type)
			e.emit(auditTasks, float64(p.ExposedTasks), p.Pool, p.Type)
			e.emit(auditIRQs, float64(p.ExposedInterrupts), p.Pool, p.Type)
		}
	}
}

// LiveAudit holds the results of the audit by the kernel's scheduler since the daemon's start.
type LiveAudit struct {
	// Unavailable is the reason why the program is not loaded. Then all other fields are empty.
	Unavailable string
	// Program is btf or tracepoint: the way in which the kernel calls the program.
	Program string
	// CPUs are the exclusive CPUs that are watched now. Watched is the sum of their time in seconds,
	// and Switches the number of task switches there.
	CPUs     cpuset.Set
	Watched  float64
	Switches uint64
	// Foreign holds the counts of foreign tasks, in the order of LiveKinds.
	Foreign [4]LiveCount
	// Reports counts reported foreign tasks. The program reports one task of a kind for each CPU in ten
	// seconds.
	Reports uint64
	// Lost counts switches of foreign tasks that no row names. Foreign has them.
	Lost uint64
	// Failed counts readings that failed.
	Failed uint64
	// Runs and RunSeconds are the runs of the program and their time. They are 0 unless the kernel's
	// statistics of eBPF programs are on.
	Runs       uint64
	RunSeconds float64
}

// LiveCount is CPU time in seconds and a number of task switches.
type LiveCount struct {
	Seconds  float64
	Switches uint64
}

// LiveKinds returns the kinds of foreign tasks, in the order of [schedwatch.Kind]. kernel_bound threads
// follow the work of the owner. All other kinds break the exclusivity of CPUs.
func LiveKinds() [4]string { return [4]string{"user", "kernel_bound", "kernel_other", "unknown"} }

// Share returns the share of the watched time without foreign tasks, except for kernel threads that
// are bound to their CPU. It returns false before the first second.
func (a *LiveAudit) Share() (float64, bool) {
	if a.Watched < 1 {
		return 0, false
	}
	foreign := 0.0
	for i, kind := range LiveKinds() {
		if kind != "kernel_bound" {
			foreign += a.Foreign[i].Seconds
		}
	}
	return max(0, 1-foreign/a.Watched), true
}

func (e emitter) liveAudit(a *LiveAudit) {
	if a == nil {
		return
	}
	for _, program := range []string{"btf", "tracepoint", "unavailable"} {
		is := a.Program == program || program == "unavailable" && a.Unavailable != ""
		e.emit(liveProgram, boolValue(is), program)
	}
	if a.Unavailable != "" {
		return
	}
	e.emit(liveCPUs, float64(a.CPUs.Len()))
	e.emit(liveWatched, a.Watched)
	e.emit(liveSwitches, float64(a.Switches))
	for i, kind := range LiveKinds() {
		e.emit(liveForeign, a.Foreign[i].Seconds, kind)
		e.emit(liveForeignSwitches, float64(a.Foreign[i].Switches), kind)
	}
	e.emit(liveReports, float64(a.Reports))
	e.emit(liveLost, float64(a.Lost))
	if a.Runs > 0 {
		e.emit(liveRuns, float64(a.Runs))
		e.emit(liveRunSeconds, a.RunSeconds)
	}
}
