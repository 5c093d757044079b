package preflight

import (
	"fmt"
	"path"
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
		findings = append(findings, Finding{
			Severity: Error,
			Subject:  e.file + ": " + dir.key,
			Found:    fmt.Sprintf("%s cannot be written to, which %s needs: %v", dir.path, dir.use, err),
			Remedy:   "run as root on a writable file system, or set the key to another directory",
		})
	}
	return findings
}

// checkDaemon: the lock is internal/node/daemon.Lock's.
func checkDaemon(e *evidence) []Finding {
	lock := path.Join(e.config.RunDir, "lock")
	pid, err := e.host.LockHolder(lock)
	switch {
	case err != nil:
		return []Finding{{
			Severity: Info,
			Subject:  lock,
			Found:    fmt.Sprintf("cannot tell whether a cpupoold is running: %v", err),
		}}
	case pid != 0:
		return []Finding{{
			Severity: Info,
			Subject:  lock,
			Found:    fmt.Sprintf("a cpupoold is running as process %d", pid),
			Remedy:   "stop it before another one is started on this node",
		}}
	}
	return nil
}
