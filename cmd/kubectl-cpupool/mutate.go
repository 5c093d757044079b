package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/internal/manifest"
)

const mutateHelp = `Prints manifests as the webhook would have them: Pods, and the templates of
Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs and CronJobs. Other
objects and all comments stay.

Whether the namespace allows a workload type is known in the cluster only, and
taken for granted here. Warnings go to the standard error.`

// mutateOptions are the flags of mutate.
type mutateOptions struct {
	files    []string
	types    []string
	diff     bool
	settings admission.Settings
}

func mutateCommand(s streams) *cobra.Command {
	o := &mutateOptions{settings: admission.Settings{Types: map[string]bool{}}}
	cmd := &cobra.Command{
		Use:   "mutate -f FILE",
		Short: "print manifests as the webhook would have them",
		Long:  mutateHelp,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := noArgs(cmd, args); err != nil {
				return err
			}
			if len(o.files) == 0 {
				return usageError{errors.New("no file; name one with -f, or - for the standard input")}
			}
			return nil
		},
		RunE: func(*cobra.Command, []string) error { return o.run(s) },
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&o.files, "filename", "f", nil, "`FILE` of manifests, - for the standard input; may be repeated")
	flags.BoolVar(&o.diff, "diff", false, "print what changes instead")
	flags.StringSliceVar(&o.types, "type", []string{"management"}, "workload `TYPE` that is switched on; may be repeated")
	flags.BoolVar(&o.settings.SharedCPUs, "shared-cpus", false, "the resource of the shared pool is switched on")
	flags.BoolVar(&o.settings.GuaranteedCPUs, "guaranteed-cpus", false, "the resource of the guaranteed pool is switched on")
	flags.StringVar(&o.settings.Names.Domain, "domain", "workload.openshift.io", "`DOMAIN` of annotations and types")
	flags.StringVar(&o.settings.Names.PoolDomain, "pool-domain", "openshift.io", "`DOMAIN` of the pools' resources")
	return cmd
}

func (o *mutateOptions) run(s streams) error {
	for _, typ := range o.types {
		o.settings.Types[typ] = true
	}
	var out bytes.Buffer
	for _, file := range o.files {
		data, err := read(s.in, file)
		if err != nil {
			return err
		}
		result, err := manifest.Rewrite(data, o.mutate)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for _, note := range result.Notes {
			fmt.Fprintf(s.err, "warning: %s: %s\n", file, note)
		}
		switch {
		case o.diff:
			out.Write(diff.Diff(file, result.Before, file+" (mutated)", result.After))
		case out.Len() > 0 && len(result.After) > 0:
			out.WriteString("---\n")
			fallthrough
		default:
			out.Write(result.After)
		}
	}
	_, err := s.out.Write(out.Bytes())
	return err
}

// mutate is what the webhook does to a pod.
func (o *mutateOptions) mutate(pod *corev1.Pod) (*corev1.Pod, []string, error) {
	result, warnings, err := o.settings.Mutate(pod, admission.Origin{Manifest: true})
	var notes []string
	for _, w := range warnings {
		notes = append(notes, w.String())
	}
	return result, notes, err
}

func read(stdin io.Reader, file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(stdin)
	}
	return os.ReadFile(file)
}
