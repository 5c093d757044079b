// Package cputime measures the CPU time of benchmarks. Unlike wall time, it does not increase on
// a busy machine.
package cputime

import (
	"syscall"
	"testing"
	"time"
)

// Of returns the CPU time of this process, with its time in the kernel (getrusage(2)).
func Of(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Report adds the CPU time since then to the results of a benchmark, as cpu-ns/op.
func Report(b *testing.B, since time.Duration) {
	b.Helper()
	b.ReportMetric(float64(Of(b)-since)/float64(b.N), "cpu-ns/op")
}
