package main

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// BenchmarkFlagError measures a process that ends with a flag error, in wall and CPU time.
// That is the work of all of the daemon's packages before main.
func BenchmarkFlagError(b *testing.B) {
	daemon := filepath.Join(b.TempDir(), "cpupoold")
	if out, err := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", daemon, ".").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	var cpu time.Duration
	n := 0
	for b.Loop() {
		run := exec.Command(daemon, "run", "--no-such-flag")
		out, err := run.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || !strings.Contains(string(out), "--no-such-flag") {
			b.Fatalf("%v\n%s", err, out)
		}
		cpu += run.ProcessState.UserTime() + run.ProcessState.SystemTime()
		n++
	}
	b.ReportMetric(float64(cpu)/float64(n), "cpu-ns/op")
}
