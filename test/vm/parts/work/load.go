package main

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
)

// spin keeps that many threads runnable until ctx is done.
//
// The Go scheduler would run n goroutines on as many CPUs as it believes to have, and it lowers that belief to the CPU limit of the
// cgroup. Load has to be what was asked for, whatever the limit, so both the number of CPUs and the threads are fixed here.
func spin(ctx context.Context, threads int) {
	if threads == 0 {
		threads = runtime.NumCPU()
	}
	// One more than the spinners: the goroutine that waits for the signal must not queue behind them.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(threads + 1))

	var stop atomic.Bool
	var wg sync.WaitGroup
	for range threads {
		wg.Go(func() {
			runtime.LockOSThread()
			for !stop.Load() {
			}
		})
	}
	<-ctx.Done()
	stop.Store(true)
	wg.Wait()
}
