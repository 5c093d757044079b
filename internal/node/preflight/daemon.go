package preflight

import (
	"context"
	"fmt"
	"path"

	"github.com/cpupoold/cpupoold/internal/config"
)

func checkDirectories(e *evidence) {
	for _, dir := range []struct{ key, path, use string }{
		{"runDir", e.config.RunDir, "the lock"},
		{"stateDir", e.config.StateDir, "the journal"},
	} {
		if err := e.host.Writable(dir.path); err != nil {
			e.add(Error, e.file+": "+dir.key,
				fmt.Sprintf("%s cannot hold %s: %v", dir.path, dir.use, err),
				"run as root on a writable file system, let only root write to the directory, or set the key to another one")
		}
	}
}

// holder returns the process that holds the lock of package service, or 0.
func (e *evidence) holder() (lock string, pid int, err error) {
	lock = path.Join(e.config.RunDir, "lock")
	pid, err = e.host.LockHolder(lock)
	return lock, pid, err
}

// checkDaemon reports a daemon that holds the lock of package service.
func checkDaemon(e *evidence) {
	switch lock, pid, err := e.holder(); {
	case err != nil:
		e.add(Info, lock, fmt.Sprintf("cannot find out whether a daemon runs: %v", err), "")
	case pid != 0:
		e.add(Info, lock, fmt.Sprintf("a daemon runs as process %d", pid), "stop it before you start another one on this node")
	}
}

// readChanges asks for the CPUs that a daemon would change, if there can be a plan.
func (e *evidence) readChanges(ctx context.Context) {
	if !runtimeUsed(e) || !resolvedPools(e) || e.host.Changes == nil || e.runtime.name == "" || e.config.Mode == config.ModeObserve {
		return
	}
	_, pid, err := e.holder()
	if hasUnits := !systemdNeeded(e) || systemdAnswers(e); hasUnits && pid == 0 && err == nil {
		e.changes, e.changesErr = e.host.Changes(ctx)
	}
}

// checkRunning lists the running containers whose CPUs an installation changes.
func checkRunning(e *evidence) {
	const subject = "running containers"
	if e.changesErr != nil {
		e.add(Info, subject, fmt.Sprintf("cannot list the CPUs that the daemon would change: %v", e.changesErr), "")
		return
	}
	for _, line := range e.changes {
		e.add(Info, subject, "when the daemon starts, "+line, "cpupoold plan prints the pool of each container, and the reason")
	}
}
