// Command adapter serves the CPU use of pods to the HPA controller, from the metrics of one cpupoold.
// It is behind the aggregator of test/e2e, where no Prometheus runs. Each scrape is the daemon's own
// /metrics.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"sigs.k8s.io/custom-metrics-apiserver/pkg/cmd"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "adapter:", err)
		os.Exit(1)
	}
}

// run serves until ctx is done.
func run(ctx context.Context, args []string) error {
	base := &cmd.AdapterBase{Name: "cpupoold-adapter"}
	url := base.Flags().String("daemon", "http://127.0.0.1:9466/metrics", "`URL` of the daemon's metrics")
	if err := base.Flags().Parse(args); err != nil {
		return fmt.Errorf("parse command line: %w", err)
	}
	client, err := base.DynamicClient()
	if err != nil {
		return fmt.Errorf("connect to the API server: %w", err)
	}
	mapper, err := base.RESTMapper()
	if err != nil {
		return fmt.Errorf("connect to the API server: %w", err)
	}
	use := &usage{url: *url}
	pods := &podMetrics{client: client, mapper: mapper, usage: use}
	base.WithCustomMetrics(pods)
	server, err := base.Server()
	if err != nil {
		return fmt.Errorf("make server: %w", err)
	}
	server.GenericAPIServer.Handler.NonGoRestfulMux.HandlePrefix(resourcePath+"/", resourceMetrics{pods})
	server.GenericAPIServer.Handler.NonGoRestfulMux.Handle(resourcePath, resourceMetrics{pods})
	go use.follow(ctx)
	return base.Run(ctx)
}
