package preflight

import (
	"context"
	"fmt"

	"github.com/cpupoold/cpupoold/internal/config"
)

// readChanges asks for the CPUs that a daemon would change. Without an answer of the runtime or of
// systemd there is no plan, and other checks report the reason.
func (e *evidence) readChanges(ctx context.Context) {
	for _, n := range []need{configured, runtimeUsed, resolvedPools} {
		if !n(e) {
			return
		}
	}
	hasUnits := !systemdNeeded(e) || systemdAnswers(e)
	if e.host.Changes != nil && e.runtime.name != "" && hasUnits && e.config.Mode != config.ModeObserve && len(checkDaemon(e)) == 0 {
		e.changes, e.changesErr = e.host.Changes(ctx)
	}
}

// checkRunning lists the running containers whose CPUs an installation changes.
func checkRunning(e *evidence) []Finding {
	const subject = "running containers"
	if e.changesErr != nil {
		return []Finding{{Severity: Info, Subject: subject, Found: fmt.Sprintf("cannot list the CPUs that the daemon would change: %v", e.changesErr)}}
	}
	var findings []Finding
	for _, line := range e.changes {
		findings = append(findings, Finding{
			Severity: Info, Subject: subject, Found: "when the daemon starts, " + line,
			Remedy: "cpupoold plan prints the pool of each container, and the reason",
		})
	}
	return findings
}
