package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCommandLine checks exit codes and messages of command lines that do not start the driver.
func TestCommandLine(t *testing.T) {
	t.Setenv("NODE_NAME", "")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	broken := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(broken, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args string
		code int
		want string // part of the output
	}{
		{"--version", 0, "cpupool-dra "},
		{"--help", 0, "--accounting"},
		{"", 2, "set --node-name or NODE_NAME"},
		{"--node-name No", 2, `node name "No"`},
		{"--node-name n --pod-uid ../u", 2, `pod UID "../u"`},
		{"--node-name n more", 2, `takes no argument "more"`},
		{"--node-name n --accounting half", 2, `unknown accounting "half"`},
		{"--node-name n --numa-attribute numaNode", 2, "write a domain and an identifier"},
		{"--node-name n --numa-attribute dra.net/" + strings.Repeat("n", 33), 2, "an identifier 32"},
		{"--node-name n --numa-attribute " + strings.Repeat("d", 62) + ".n/numaNode", 2, "at most 63 bytes"},
		{"--node-name n --log-level loud", 2, "--log-level"},
		{"--node-name n --log-format xml", 2, "--log-format"},
		{"--node-name n --kubeconfig " + broken, 1, "find the cluster"},
	} {
		var out bytes.Buffer
		code := execute(t.Context(), &out, &out, strings.Fields(tt.args))
		if code != tt.code || !strings.Contains(out.String(), tt.want) {
			t.Errorf("cpupool-dra %s: exit code %d, %s; want %d, %q", tt.args, code, &out, tt.code, tt.want)
		}
	}
}
