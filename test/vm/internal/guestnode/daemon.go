package guestnode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/preview"
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

// AwaitNRI waits until the runtime asks the daemon over NRI before it creates containers.
func (n *Node) AwaitNRI() {
	n.Helper()
	n.Eventually("NRI connected", func() error {
		request, err := http.NewRequestWithContext(n.Context(), http.MethodGet, "http://127.0.0.1:9466/metrics", nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err == nil && !strings.Contains(string(body), `cpupoold_source_state{source="nri",state="ok"} 1`) {
			err = errors.New("the metrics report no connection")
		}
		return err
	})
}

// Plan returns the output of `cpupoold plan`.
func (n *Node) Plan() preview.Preview {
	n.Helper()
	p, err := n.tryPlan()
	if err != nil {
		n.Fatalf("%v\n%s", err, n.Evidence())
	}
	return p
}

func (n *Node) tryPlan() (p preview.Preview, err error) {
	ctx, cancel := requestContext()
	defer cancel()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "cpupoold", "plan", "-o", "json")
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return p, fmt.Errorf("cpupoold plan: %w: %s", err, &stderr)
	}
	if err := json.Unmarshal(out, &p); err != nil {
		return p, fmt.Errorf("cpupoold plan: %w: %s", err, out)
	}
	return p, nil
}

// Settled waits until the daemon has nothing left to write, and returns the plan. If the runtime is too busy to answer, the next try
// follows.
func (n *Node) Settled() (p preview.Preview) {
	n.Helper()
	n.Every(time.Second, "plan without writes", func() (err error) {
		if p, err = n.tryPlan(); err != nil {
			return err
		}
		if len(p.Writes) > 0 || len(p.Deferred) > 0 {
			return fmt.Errorf("still to do: %v %v", p.Writes, p.Deferred)
		}
		return nil
	})
	return p
}
