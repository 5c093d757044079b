package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
)

// TestRestoreWaits: a pod of deploy/uninstall/restore.yaml that ended would be started again.
func TestRestoreWaits(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	text := fmt.Sprintf(`apiVersion: config.cpupoold.io/v1alpha1
kind: CPUPoolConfiguration
stateDir: %[1]s/state
runDir: %[1]s/run
node: {enabled: false}
`, dir)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		flag  string
		waits bool
	}{{"--wait", true}, {"--wait=false", false}} {
		t.Run(c.flag, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, end := context.WithCancel(t.Context())
				defer end()
				var stdout, stderr bytes.Buffer
				code, ended := 0, false
				go func() {
					code = execute(ctx, streams{out: &stdout, err: &stderr}, []string{"restore", "--config", file, c.flag})
					ended = true
				}()
				synctest.Wait()
				if !strings.Contains(stdout.String(), "0 values restored") {
					t.Fatalf("standard output %q, standard error %q; want 0 values restored", &stdout, &stderr)
				}
				if ended == c.waits {
					t.Errorf("ended without a signal: %t; want %t", ended, !c.waits)
				}
				end()
				synctest.Wait()
				if !ended || code != exitOK {
					t.Errorf("after a signal: ended %t with exit code %d; want %d", ended, code, exitOK)
				}
			})
		})
	}
}
