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
