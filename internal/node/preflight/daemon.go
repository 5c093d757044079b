package preflight

import (
	"context"
	"fmt"
	"path"

	"github.com/cpupoold/cpupoold/internal/config"
)

func checkDirectories(e *evidence) []Finding {
	var findings []Finding
	for _, dir := range []struct{ key, path, use string }{
		{"runDir", e.config.RunDir, "the lock"},
		{"stateDir", e.config.StateDir, "the journal"},
	} {
		err := e.host.Writable(dir.path)
		if err == nil {
			continue
		}
		findings = append(findings, newFinding(Error, e.file+": "+dir.key,
			fmt.Sprintf("%s cannot hold %s: %v", dir.path, dir.use, err),
			"run as root on a writable file system, let only root write to the directory, or set the key to another one"))
	}
	return findings
}

// checkDaemon reports a daemon that holds the lock of hostenv.
func checkDaemon(e *evidence) []Finding {
	lock := path.Join(e.config.RunDir, "lock")
	pid, err := e.host.LockHolder(lock)
	switch {
	case err != nil:
		return []Finding{newFinding(Info, lock,
			fmt.Sprintf("cannot find out whether a daemon runs: %v", err), "")}
	case pid != 0:
		return []Finding{newFinding(Info, lock,
			fmt.Sprintf("a daemon runs as process %d", pid),
			"stop it before you start another one on this node")}
	}
	return nil
}

// readChanges asks for the CPUs that a daemon would change, if there can be a plan.
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
