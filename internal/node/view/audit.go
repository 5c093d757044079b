package view

import (
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
)

// audit returns the state of the audits, or nil before the first plan.
func (in *Snapshot) audit() *inspect.Audit {
	if in.Settings.Config == nil {
		return nil
	}
	a := new(inspect.Audit)
	if every := in.Settings.Config.AuditInterval; every > 0 {
		a.Interval = every.String()
	}
	if l := in.Live; l != nil {
		a.Live = &inspect.LiveAudit{Unavailable: l.Unavailable, Program: l.Program, CPUs: l.CPUs, Seconds: l.Watched, Lost: l.Lost}
		if share, known := l.Share(); known {
			a.Live.Share = &share
		}
		for i, kind := range telemetry.LiveKinds() {
			a.Live.Foreign = append(a.Live.Foreign, inspect.ForeignTime{Kind: kind, Seconds: l.Foreign[i].Seconds, Switches: l.Foreign[i].Switches})
		}
	}
	a.Describe(in.noLive())
	return a
}

// noLive returns the reason for a live audit without results.
func (in *Snapshot) noLive() string {
	switch {
	case !in.Settings.Config.AuditLive:
		return "audit.live is false"
	case in.Observes:
		return "mode is observe, so exclusive CPUs are not in force"
	}
	return "the program is loading"
}
