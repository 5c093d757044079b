package telemetry

// Audit is what the daemon has found who was on CPUs of somebody else.
type Audit struct {
	Pools []AuditPool
	// Looks and Failed count looks at the tasks of the machine; Seconds is the CPU time
	// that they have cost.
	Looks, Failed uint64
	Seconds       float64
}

// AuditPool is what was found on the CPUs of a pool; in the guaranteed pool on those
// that somebody has.
type AuditPool struct {
	PoolName
	// Known says that there are such CPUs now. Without, only Others and Interrupts count.
	Known bool
	// Score is the share, 0..1, of the time of these CPUs since the look before that
	// others did not use.
	Score float64
	// ExposedTasks and ExposedInterrupts may run there now.
	ExposedTasks, ExposedInterrupts int
	// Others is the CPU time that others were seen to use, in seconds, and Interrupts
	// the interrupts of devices, since the start.
	Others     float64
	Interrupts uint64
}

// audit emits who was found on CPUs of somebody else.
func (e emitter) audit(a *Audit) {
	if a == nil {
		return
	}
	e.emit(auditLooks, float64(a.Looks), string(OK))
	e.emit(auditLooks, float64(a.Failed), string(Failed))
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
