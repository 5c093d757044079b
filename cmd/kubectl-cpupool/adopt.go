package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/plugin/adopt"
)

const adoptHelp = `Lists the pods of a running cluster that are older than the webhook. No pool counts their
CPUs. It prints what each pod would become, and in which order to restart them. It
changes nothing. Restart the pods of one step, check that they run again, and list again.

  kubectl cpupool adopt --dry-run --cluster --shared-cpus --guaranteed-cpus
  kubectl get pods,namespaces,replicasets,jobs -A -o json |
    kubectl cpupool adopt --dry-run --shared-cpus --guaranteed-cpus -f -

The standard error states the kinds of the objects that were read and skipped. Lists
without a readable object are an error.

Use the flags of the webhook. The list must contain the namespaces: they state which
workload types they allow. Add resourceclaims, resourceclaimtemplates and deviceclasses to the
list if pods have claims. Without replicasets and jobs in the list, the command guesses
the owners of pods by their names.`

type adoptOptions struct {
	admissionFlags
	clusterFlags
	files  []string
	dryRun bool
	output string
}

func adoptCommand(s streams) *cobra.Command {
	o := &adoptOptions{}
	cmd := &cobra.Command{
		Use:   "adopt --dry-run {-f FILE | --cluster}",
		Short: "List pods that no pool counts, and the order to restart them",
		Long:  adoptHelp,
		Args:  flagsOnly(o.check),
		RunE:  func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), s) },
	}
	o.admissionFlags.add(cmd)
	flags := cmd.Flags()
	o.clusterFlags.add(flags)
	flags.StringArrayVarP(&o.files, "filename", "f", nil, "`FILE` with a list in JSON as kubectl get prints it, - for the standard input; may be repeated")
	flags.BoolVar(&o.dryRun, "dry-run", false, "list and change nothing; required")
	flags.StringVarP(&o.output, "output", "o", "text", "`FORMAT`: text or json")
	return cmd
}

func (o *adoptOptions) check() error {
	if !o.dryRun {
		return errors.New("adopt only lists pods; add --dry-run to get the list")
	}
	return cmp.Or(checkSource(o.files, o.clusterFlags), checkOutput(o.output))
}

func (o *adoptOptions) run(ctx context.Context, s streams) error {
	o.switchOn()
	var cluster adopt.Cluster
	if o.given() {
		data, err := o.readCluster(ctx, s)
		if err != nil {
			return err
		}
		if err := cluster.Read("cluster", data); err != nil {
			return err
		}
	}
	for _, file := range o.files {
		data, err := read(s.in, file)
		if err != nil {
			return err
		}
		if err := cluster.Read(file, data); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	if err := reportCoverage(s, &cluster.Coverage, nil, "pods"); err != nil {
		return err
	}
	plan := adopt.Make(o.settings, &cluster)
	return s.show(o.output, plan, func(w *layout.Writer) { printAdoption(layout.Lines(w), plan) })
}

// readCluster returns a list of the objects that a plan needs. Objects of resource.k8s.io decide which
// containers run on CPUs of claims. Before Kubernetes 1.34, no such object exists.
func (o *adoptOptions) readCluster(ctx context.Context, s streams) ([]byte, error) {
	a, err := o.connect()
	if err != nil {
		return nil, err
	}
	items, err := a.read(ctx, "/api/v1/namespaces", "/apis/apps/v1/replicasets", "/apis/batch/v1/jobs", "/api/v1/pods")
	if err != nil {
		return nil, err
	}
	const group = "/apis/resource.k8s.io/v1/"
	claims, err := a.optional(ctx, s, "containers with ResourceClaims count by their cpu requests",
		group+"deviceclasses", group+"resourceclaimtemplates", group+"resourceclaims")
	if err != nil {
		return nil, err
	}
	return asList(append(items, claims...))
}

func printAdoption(out io.Writer, plan adopt.Plan) {
	if len(plan.Steps) == 0 {
		fmt.Fprintln(out, "All pods are counted correctly.")
		return
	}
	stage := adopt.Stage(-1)
	for _, step := range plan.Steps {
		if step.Stage != stage {
			stage = step.Stage
			fmt.Fprintf(out, "%s.\n", stage.Why())
		}
		fmt.Fprintf(out, "  %s %s/%s: pods %d, cpu %dm", step.Namespace, step.Kind, step.Name, step.Pods, step.MilliCPU)
		if len(step.Becomes) > 0 {
			fmt.Fprintf(out, "; each becomes %s", strings.Join(step.Becomes, ", "))
		}
		fmt.Fprintf(out, "\n    %s\n", step.How)
		for _, w := range step.Warnings {
			fmt.Fprintf(out, "    warning: %s\n", w)
		}
	}
	fmt.Fprintln(out, "Used on nodes, and counted by no pool:")
	for _, node := range plan.Nodes {
		fmt.Fprintf(out, "  %s: pods %d, cpu %dm\n", node.Name, node.Pods, node.MilliCPU)
	}
}
