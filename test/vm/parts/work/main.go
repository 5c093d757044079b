// Command work is what runs inside the containers of the VM node: the sandbox's pause process and the loads that tests place on CPUs.
//
//	work pause                      wait for SIGTERM or SIGINT, and reap what is orphaned meanwhile (shared PID namespace)
//	work sleep                      wait for SIGTERM or SIGINT
//	work spin [THREADS]             burn CPU in that many threads until told to stop; default: one per CPU it may use
//	work exit CODE [after SECONDS]  end with that status
//	work report                     print the CPUs it may use, the one it is on, its cgroup and what tells it its CPUs, then wait
//
// Being told to stop is success: the exit status is 0. A command line it does not understand is status 2, any other trouble 1.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// A process 1 without a handler never sees SIGTERM, so this comes before anything else.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()

	c, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "work:", err)
		os.Exit(2)
	}
	code, err := c.run(ctx, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "work:", err)
		os.Exit(1)
	}
	os.Exit(code)
}
