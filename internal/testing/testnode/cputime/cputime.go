// Package cputime tells benchmarks what they take of a CPU: unlike the time on a clock, it is not longer on a busy
// machine.
package cputime

import (
	"syscall"
	"testing"
	"time"
)

// Of is the CPU time of this process so far, the kernel's for it included (getrusage(2)).
func Of(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Report adds what a benchmark has taken since then as cpu-ns/op.
func Report(b *testing.B, since time.Duration) {
	b.Helper()
	b.ReportMetric(float64(Of(b)-since)/float64(b.N), "cpu-ns/op")
}
