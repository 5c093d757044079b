package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	appsclient "k8s.io/client-go/kubernetes/typed/apps/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/cpupoold/cpupoold/internal/cluster/installation"
)

const verifyHelp = `Checks from inside the cluster that an installation works, as the pod of helm test.

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
	flags.StringSliceVar(&o.Conditions, "condition", nil, "`NAME` of a DaemonSet whose nodes report the condition CPUPoolsReady")
	flags.StringVar(&o.ReviewIn, "review-in", "", "`NAMESPACE` of the pod that is created with dryRun; by default no pod is created")
	flags.DurationVar(&timeout, "timeout", 2*time.Minute, "how long to wait")
	flags.StringVar(&kubeconfig, "kubeconfig", "", "`FILE` with the way to the cluster; by default the pod's service account")
	return cmd
}
