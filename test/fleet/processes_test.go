//go:build fleet

package fleet_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/test/processes"
)

// waitTimeout bounds every wait. Only a failure uses it up.
const waitTimeout = 3 * time.Minute

// audit writes down each request of daemons, and nothing else.
const audit = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  users: [` + daemons + `]
- level: None
`

// daemons is the user that all of them are, as in a cluster: one account for all
// nodes, and one flow of API priority and fairness.
const daemons = "system:serviceaccount:cpupoold:cpupoold"

// apiServer is an API server that logs the requests of daemons to a file.
type apiServer struct {
	*processes.APIServer
	audit string
}

// startServer starts it. The tokens are a line for each node.
func startServer(t *testing.T, tokens []string) *apiServer {
	t.Helper()
	dir := t.TempDir()
	policy, log := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	write(t, policy, audit)
	return &apiServer{audit: log, APIServer: processes.StartAPIServer(t, strings.Join(tokens, ""),
		"--authorization-mode", "RBAC", "--audit-policy-file", policy, "--audit-log-path", log)}
}

// do makes a request as administrator.
func (s *apiServer) do(method, path, kind, body string) ([]byte, error) {
	return s.Do(context.Background(), method, path, kind, body)
}

func write(t *testing.T, file, text string) {
	t.Helper()
	processes.Write(t, file, []byte(text))
}

func eventually(t *testing.T, what string, ask func() error) {
	t.Helper()
	processes.Eventually(t, waitTimeout, what, func(context.Context) error { return ask() })
}
