package main

import (
	"os"
	"runtime"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// collectAt is how much, in percent of what lives, is allocated before garbage is collected,
// where GOGC does not say it. Half of Go's own: figures are in docs/performance.md.
const collectAt = 50

// frugal has the daemon take little of a node of which each CPU and page is the workload's.
func frugal() {
	// The node has few CPUs for the likes of us, and the loop is one goroutine.
	runtime.GOMAXPROCS(min(2, runtime.NumCPU()))
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectAt)
	}
	// Pages of 2 MiB of which little is used cost several MiB of memory where the kernel gives
	// them to everybody (transparent_hugepage=always). A kernel without them refuses.
	_ = unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0)
}
