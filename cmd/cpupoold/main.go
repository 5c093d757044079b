// Command cpupoold keeps the CPU pools of a node apart. See `cpupoold help`.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/cpupoold/cpupoold/internal/layout"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal kills
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	os.Exit(execute(ctx, streams{out: layout.Output(os.Stdout, os.Getenv("COLUMNS")), err: os.Stderr, hangup: hangup}, os.Args[1:]))
}
