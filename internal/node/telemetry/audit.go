package telemetry

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
