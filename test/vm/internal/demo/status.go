package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"

	"github.com/cpupoold/cpupoold/internal/control"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/test/vm"
)

// daemon is a connection to the daemon of a guest. `cpupoold status` sends the same request.
type daemon struct{ http.Client }

func newDaemon(m *vm.VM) *daemon {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return m.Dial(ctx, "unix", control.Socket("/run/cpupoold"))
	}
	return &daemon{http.Client{Transport: &http.Transport{DialContext: dial}}}
}

// status returns the state of the node after the last pass.
func (d *daemon) status(ctx context.Context) (*inspect.Status, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://cpupoold/v1/status", nil)
	if err != nil {
		return nil, err
	}
	answer, err := d.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status of the daemon: %s", answer.Status)
	}
	var s inspect.Status
	if err := json.NewDecoder(answer.Body).Decode(&s); err != nil {
		return nil, fmt.Errorf("status of the daemon: %w", err)
	}
	return &s, nil
}
