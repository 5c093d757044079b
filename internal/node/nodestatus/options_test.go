package nodestatus_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
)

const header = `apiVersion: config.cpupoold.io/v1alpha1
kind: CPUPoolConfiguration
guaranteed: {cpus: 2-3}
`

// TestOptionsFor checks which configurations contact an API server, and with which access.
// The test's process has no service account.
func TestOptionsFor(t *testing.T) {
	inPod := nodestatus.Environment{NodeName: "n1", APIHost: "10.0.0.1", APIPort: "443"}
	for _, c := range []struct {
		yaml         string
		env          nodestatus.Environment
		access, fail string // neither: no API server is contacted
	}{
		{"", inPod, "", ""},
		{"node: {enabled: true}", inPod, "", "service account"},
		{"node: {enabled: true, name: n2}", inPod, "", "service account"},
		{"node: {enabled: true}", nodestatus.Environment{}, "", "NODE_NAME"},
		{"node: {enabled: false, kubeconfig: /nowhere}", inPod, "", ""},
		{"node: {enabled: true, kubeconfig: /nowhere}", inPod, "", "/nowhere"},
		// The kubelet may write this kubeconfig later; the daemon starts.
		{"node: {kubeconfig: /nowhere}", inPod, "/nowhere", ""},
	} {
		cfg, err := config.Parse([]byte(header+c.yaml), "config.yaml", config.Overrides{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		o, err := nodestatus.OptionsFor(cfg, c.env, slog.New(slog.DiscardHandler))
		access := ""
		if o != nil {
			access = o.Access.String()
		}
		if access != c.access || (err == nil) != (c.fail == "") || err != nil && !strings.Contains(err.Error(), c.fail) {
			t.Errorf("%q: access %q, %v; want %q, %q", c.yaml, access, err, c.access, c.fail)
		}
	}
}
