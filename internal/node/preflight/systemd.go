package preflight

import (
	"context"
	"fmt"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cri"
)

type systemdFacts struct {
	version int
	err     error
}

func querySystemd(ctx context.Context, host Host) systemdFacts {
	within, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	version, err := host.SystemdVersion(within)
	return systemdFacts{version, err}
}

func checkSystemd(e *evidence) []Finding {
	if e.systemd.err == nil {
		return nil
	}
	use := "the cgroup driver is systemd"
	if e.driver() != cri.Systemd {
		use = "units are configured"
	}
	return []Finding{newFinding(Error, "systemd",
		fmt.Sprintf("%s, but the manager cannot be used: %s", use, strings.ReplaceAll(e.systemd.err.Error(), "\n", "; ")),
		"use systemd 244 or later and run as root; in a container mount the host's /run/systemd and /run/dbus")}
}
