package guestnode

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"time"

	"github.com/cpupoold/cpupoold/internal/daemon"
)

// ConfigFile is the daemon's configuration.
const ConfigFile = "/etc/cpupoold/config.yaml"

// StartDaemon starts the daemon's unit with a configuration; systemd waits for its READY.
func (n *Node) StartDaemon(config string) {
	n.Helper()
	n.Write(ConfigFile, config)
	_, _ = n.Try("systemctl", "reset-failed", "cpupoold") // an error when it has never run
	if out, err := n.Try("systemctl", "start", "cpupoold"); err != nil {
		n.Fatalf("start daemon: %v: %s\n%s", err, out, n.Evidence())
	}
}

// StopDaemon stops the daemon's unit.
func (n *Node) StopDaemon() {
	n.Helper()
	n.Run("systemctl", "stop", "cpupoold")
}

// Plan is what `cpupoold plan` prints.
func (n *Node) Plan() (p daemon.Preview) {
	n.Helper()
	ctx, cancel := patiently()
	defer cancel()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "cpupoold", "plan", "-o", "json")
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		n.Fatalf("cpupoold plan: %v: %s\n%s", err, &stderr, n.Evidence())
	}
	if err := json.Unmarshal(out, &p); err != nil {
		n.Fatalf("cpupoold plan: %v: %s", err, out)
	}
	return p
}

// Settled waits until the daemon has nothing left to write, and returns the plan.
func (n *Node) Settled() (p daemon.Preview) {
	n.Helper()
	n.Every(time.Second, "plan without writes", func() error {
		p = n.Plan()
		if len(p.Writes) > 0 || len(p.Deferred) > 0 {
			return fmt.Errorf("still to do: %v %v", p.Writes, p.Deferred)
		}
		return nil
	})
	return p
}
