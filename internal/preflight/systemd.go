package preflight

import (
	"context"
	"fmt"
)

// systemdFacts is the answer of the service manager.
type systemdFacts struct {
	version int
	err     error
}

func askSystemd(ctx context.Context, host Host) systemdFacts {
	within, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	version, err := host.SystemdVersion(within)
	return systemdFacts{version, err}
}

func checkSystemd(e *evidence) []Finding {
	if e.systemd.err == nil {
		return nil
	}
	return []Finding{{
		Severity: Error,
		Subject:  "systemd",
		Found:    fmt.Sprintf("the cgroup driver is systemd, but the manager cannot be used: %v", e.systemd.err),
		Remedy:   "use systemd 244 or later and run as root; in a container mount the host's /run/systemd and /run/dbus",
	}}
}
