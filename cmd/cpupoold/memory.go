package main

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// frugal has the daemon take little of a node of which each CPU and page is the workload's;
// figures are in docs/explanation/cost.md.
func frugal() {
	// The node has few CPUs for the likes of us, and the loop is one goroutine.
	runtime.GOMAXPROCS(min(2, runtime.NumCPU()))
	// Pages of 2 MiB of which little is used cost several MiB of memory where the kernel gives
	// them to everybody (transparent_hugepage=always). Without an answer nothing but that is lost.
	_ = unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0)
}
