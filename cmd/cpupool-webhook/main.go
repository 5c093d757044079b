// Command cpupool-webhook rewrites pods so that a stock scheduler counts them by CPU
// pool. See `cpupool-webhook help`.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	appsclient "k8s.io/client-go/kubernetes/typed/apps/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/cpupoold/cpupoold/internal/cluster/election"
	"github.com/cpupoold/cpupoold/internal/cluster/evictor"
	"github.com/cpupoold/cpupoold/internal/cluster/hostedclusters"
	"github.com/cpupoold/cpupoold/internal/cluster/installation"
	"github.com/cpupoold/cpupoold/internal/cluster/webhook"
	"github.com/cpupoold/cpupoold/internal/memorylimit"
	"github.com/cpupoold/cpupoold/internal/usage"
	"github.com/cpupoold/cpupoold/internal/version"
)

const help = `Serves the mutating webhook for pods and the validating webhook for their resizes.

It runs in the cluster, in two replicas that share only a Secret with the
certificate and a ConfigMap with the latches. See docs/how-to/install-webhook.md.`

func main() {
	debug.SetGCPercent(50) // bodies that stall become garbage; the heap is small, so collections are cheap
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal kills
	os.Exit(execute(ctx, os.Stdout, os.Stderr, os.Args[1:]))
}

type flags struct {
	config, namespace, kubeconfig string
	check, classes                bool
}

func execute(ctx context.Context, out, errs io.Writer, args []string) int {
	var f flags
	root := &cobra.Command{
		Use:     "cpupool-webhook",
		Short:   "Serve the webhook that assigns pods to CPU pools",
		Long:    help,
		Version: version.Read().String(),
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), out, errs) },
	}
	root.Flags().StringVar(&f.config, "config", "/etc/cpupool-webhook/config.yaml", "configuration `FILE`")
	root.Flags().StringVar(&f.namespace, "namespace", "cpupool-webhook", "`NAMESPACE` of the program's Secret and ConfigMap")
	root.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig `FILE` (default: the service account of the pod)")
	root.Flags().BoolVar(&f.check, "check", false, "check the configuration and exit")
	root.Flags().BoolVar(&f.classes, "priority-classes", false, "print the priority classes of hostedPriority.sizes and exit")
	root.AddCommand(verify(out))
	return usage.Run(ctx, root, out, errs, args)
}

func (f *flags) run(ctx context.Context, out, errs io.Writer) error {
	c, err := webhook.Load(f.config)
	if err != nil || f.check {
		return err
	}
	if f.classes {
		_, err := io.WriteString(out, c.HostedPriority.Manifests())
		return err
	}
	way, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig)
	if err != nil {
		return fmt.Errorf("find the cluster: %w", err)
	}
	log := logger(c, errs)
	memorylimit.Set(log, 0.9)
	o := webhook.Options{Config: c, Namespace: f.namespace, REST: way, Log: log, Also: []func(manager.Manager) error{func(m manager.Manager) error {
		return evictor.Add(m, evictor.Options{Config: c.Depletion, Names: c.Names(), Namespace: f.namespace, REST: way, Log: log})
	}}}
	if c.HostedPriority.Enabled {
		hosted, err := hostedclusters.New(hostedclusters.Options{Config: c.HostedPriority, REST: way, Registry: metrics.Registry, Log: log})
		if err != nil {
			return err
		}
		writer, err := election.New(way, f.namespace, hostedclusters.Lease, hosted.Lead)
		if err != nil {
			return err
		}
		o.Priorities, o.Wait = hosted, []<-chan struct{}{hosted.Known()}
		o.Also = append(o.Also, func(m manager.Manager) error { return errors.Join(m.Add(hosted), m.Add(writer)) })
	}
	return webhook.Run(ctx, o)
}

func logger(c webhook.Config, w io.Writer) *slog.Logger {
	o := &slog.HandlerOptions{Level: c.LogLevel}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

const verifyHelp = `Checks from inside the cluster that an installation works, for the pod of helm test.

Each node of the DaemonSets must have a ready pod of the last version. The nodes of the
DaemonSets with --condition must have the condition CPUPoolsReady. With --review-in, the
webhook must change a pod that is created with dryRun. The command waits until all of
this is true. If it is not true in time, the command prints the faults and exits
with 1.`

// verify returns the command of helm test.
func verify(out io.Writer) *cobra.Command {
	var o installation.Options
	var kubeconfig string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check that daemons and webhook of the cluster work",
		Long:  verifyHelp,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			way, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
			if err != nil {
				return fmt.Errorf("find the cluster: %w", err)
			}
			way.QPS, way.Burst = 100, 200 // each check reads all nodes; client-go's 5 each second are too slow for 600 nodes
			if o.Apps, err = appsclient.NewForConfig(way); err != nil {
				return fmt.Errorf("connect to the cluster: %w", err)
			}
			if o.Core, err = coreclient.NewForConfig(way); err != nil {
				return fmt.Errorf("connect to the cluster: %w", err)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			if err := installation.Wait(ctx, o); err != nil {
				return err
			}
			_, err = fmt.Fprintln(out, "the installation works")
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&o.DaemonSets, "daemonset", nil, "`NAME` of a DaemonSet in the namespace cpupoold")
	flags.StringSliceVar(&o.Conditions, "condition", nil, "`NAME` of a DaemonSet with daemons that report the condition CPUPoolsReady")
	flags.StringVar(&o.ReviewIn, "review-in", "", "`NAMESPACE` for the pod that the command creates with dryRun (default: no pod)")
	flags.DurationVar(&timeout, "timeout", 2*time.Minute, "maximum time of the checks")
	flags.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig `FILE` (default: the service account of the pod)")
	return cmd
}
