package main

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/nodekind"
	"github.com/cpupoold/cpupoold/internal/plugin/manifest"
	"github.com/cpupoold/cpupoold/internal/plugin/size"
	"github.com/cpupoold/cpupoold/internal/usage"
)

const sizeHelp = `Packs pods onto nodes, and prints how many nodes they need: of manifests, with as many
pods as workloads ask for, or of a saved cluster. It needs no cluster, and changes
nothing.

  kubectl cpupool size -f pods.yaml --machine 2s32c2t --config cpupoold.yaml

A machine is a description or a file, as for simulate. Several kinds of machines have
names. Nodes of the first kind are preferred. A configuration and a Node are of the kind
in front of them, or of all other kinds:

  kubectl get pods,namespaces,limitranges -A -o json > cluster.json
  kubectl get node big-1 -o json > big.json
  kubectl cpupool size -f cluster.json --machine big=2s32c2t --machine edge=8c2t \
    --config big=big.yaml --config edge=edge.yaml --node big=big.json

The pods are as the webhook would have them: its switches are on if all kinds have the
resource. Each node has a pod of each DaemonSet that its labels and taints allow. The
largest pods come first, and each goes to the first node that fits. A node fits by

- the scheduler's amounts of cpu, pods, pools and the resources of --node
- its taints with NoSchedule and NoExecute and its labels
- the planner of the daemon that gives each container its exclusive CPUs.

These rules are left out, and a note counts pods with them: affinity between pods,
topology spread, host ports, volumes and resource claims. Priorities, preferences, static
pods and the taint of a depleted node do not count, either.

The output has the lower bound: no packing has fewer nodes. It names the pod that opens
each node with the reason, the CPUs that stay unused, and another size of a pool if that
saves nodes. A search compares sizes of one pool at a time by their lower bounds, and
packs the pods with the best one.

Exit codes: 0 all pods have a node, 3 a pod fits on no kind of node, a request is refused
or an object is not read, 1 no result, 2 usage.`

type sizeOptions struct {
	files     []string
	machines  []string
	configs   []string
	nodes     []string
	namespace string
	noWebhook bool
	output    string
	defaults  admission.Defaults
}

func sizeCommand(s streams) *cobra.Command {
	o := &sizeOptions{}
	cmd := &cobra.Command{
		Use:   "size -f FILE|DIR --machine [KIND=]DESCRIPTION|FILE [--config [KIND=]FILE]",
		Short: "Compute how many nodes the pods of files need, and state why",
		Long:  sizeHelp,
		Args:  flagsOnly(o.check),
		RunE:  func(cmd *cobra.Command, _ []string) error { return o.run(cmd, s) },
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&o.files, "filename", "f", nil, "`FILE` of pods, workloads, namespaces and LimitRanges, - for the standard input, or a tree of files; may be repeated")
	flags.StringArrayVar(&o.machines, "machine", nil, "a kind of node: `[KIND=]DESCRIPTION` such as 2s32c2t, or a file, - for the standard input; may be repeated, the preferred kind first")
	flags.StringArrayVar(&o.configs, "config", nil, "configuration `[KIND=]FILE` of cpupoold; empty for none, one shared pool of all CPUs; may be repeated (default: the pools of a fresh installation)")
	flags.StringArrayVar(&o.nodes, "node", nil, "`[KIND=]FILE` of a Node with the labels, the taints and the allocatable amounts of the nodes; may be repeated")
	flags.StringVarP(&o.namespace, "namespace", "n", "default", "`NAMESPACE` of objects that name none")
	flags.BoolVar(&o.noWebhook, "no-webhook", false, "the pods are as in the files: without the webhook the scheduler does not count CPUs by pool")
	addDefaults(flags, &o.defaults)
	flags.StringVarP(&o.output, "output", "o", "table", "`FORMAT`: table or json")
	return cmd
}

func (o *sizeOptions) check() error {
	files := o.files
	for _, list := range [][]string{o.machines, o.configs, o.nodes} {
		for _, value := range list {
			_, file := splitTopology(value)
			files = append(files, file)
		}
	}
	switch {
	case len(o.files) == 0:
		return errors.New("no pods; name a file of manifests or of a saved cluster with -f")
	case len(o.machines) == 0:
		return errors.New("no machine; describe one with --machine, such as --machine 2s32c2t")
	case o.output != "table" && o.output != "json":
		return fmt.Errorf("--output %q: no such format; write table or json", o.output)
	}
	return cmp.Or(checkStdin(files...), checkDescriptions("machine", o.machines...))
}

func (o *sizeOptions) run(cmd *cobra.Command, s streams) error {
	kinds, err := o.kinds(cmd, s)
	if err != nil {
		return err
	}
	objects, bad := readObjects(s, o.files, o.namespace)
	for _, err := range bad {
		complain(s.err, fmt.Errorf("not counted: %w", err))
	}
	if err := checkObjects(s, objects, nil); err != nil {
		return err
	}
	fleet, err := objects.Fleet()
	if err != nil {
		return err
	}
	d, err := size.Plan(&size.Input{
		Kinds: kinds, Objects: fleet, Defaults: o.defaults, NoWebhook: o.noWebhook,
		Progress: func(what string) (func(int), func()) {
			p := newProgress(s.err, what)
			return p.step, p.end
		},
	})
	if err != nil {
		return err
	}
	err = s.show(o.output, d, func(w *layout.Writer) { printSize(w, d) })
	if err == nil && len(d.Unplaced)+len(d.Refused)+len(bad) > 0 {
		err = errRefused
	}
	return err
}

func (o *sizeOptions) kinds(cmd *cobra.Command, s streams) ([]size.Kind, error) {
	var kinds []size.Kind
	names := make(map[string]bool)
	for _, value := range o.machines {
		name, text := splitTopology(value)
		if name == "" {
			name, _, _ = strings.Cut(filepath.Base(text), ".")
		}
		switch {
		case text == "" || strings.HasPrefix(value, "="):
			return nil, badFlag(cmd, "--machine %q: a name or a machine is missing; write one such as worker=2s32c2t", value)
		case len(validation.IsDNS1123Subdomain(name)) > 0:
			return nil, badFlag(cmd, "--machine %q: %q is no name of a node; write a name of small letters, digits and - in front, such as worker=2s32c2t", value, name)
		case names[name]:
			return nil, badFlag(cmd, "--machine %s: there is another kind %s; write a name in front", value, name)
		}
		names[name] = true
		t, err := readMachine(s, text)
		if err != nil {
			return nil, err
		}
		kinds = append(kinds, size.Kind{Name: name, Topology: t})
	}
	configs, err := byKind(cmd, "config", o.configs, names)
	if err != nil {
		return nil, err
	}
	nodes, err := byKind(cmd, "node", o.nodes, names)
	if err != nil {
		return nil, err
	}
	for i := range kinds {
		k := &kinds[i]
		if file, given := configs(k.Name); given {
			k.File = file
			k.Config, err = config.Load(file, config.Overrides{}, nil)
		} else {
			k.File = "fresh installation"
			k.Config, err = config.Parse(fresh, k.File, config.Overrides{}, nil)
		}
		if err != nil {
			return nil, err
		}
		if file, given := nodes(k.Name); given {
			if k.Node, err = readNode(s, file); err != nil {
				return nil, fmt.Errorf("--node %s: %w", file, err)
			}
		}
	}
	return kinds, nil
}

// byKind splits values of a flag that are of one kind, or of all others. The result returns the
// value of a kind, and whether there is one.
func byKind(cmd *cobra.Command, flag string, values []string, kinds map[string]bool) (func(kind string) (string, bool), error) {
	of := make(map[string]string)
	for _, value := range values {
		kind, text := splitTopology(value)
		if _, again := of[kind]; again {
			return nil, badFlag(cmd, "--%s %s: there is another one for the same nodes; give each kind one", flag, value)
		}
		if kind != "" && !kinds[kind] {
			return nil, badFlag(cmd, "--%s %s: no --machine has the name %s", flag, value, kind)
		}
		of[kind] = text
	}
	return func(kind string) (string, bool) {
		text, given := of[kind]
		if !given {
			text, given = of[""]
		}
		return text, given
	}, nil
}

func badFlag(cmd *cobra.Command, format string, args ...any) error {
	return usage.New(cmd, fmt.Errorf(format, args...))
}

func readNode(s streams, file string) (*corev1.Node, error) {
	data, err := read(s.in, file)
	if err != nil {
		return nil, err
	}
	objects, errs := manifest.Objects(data)
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	objects = slices.DeleteFunc(objects, func(o manifest.Object) bool { return o.APIVersion != "v1" || o.Kind != "Node" })
	if len(objects) != 1 {
		return nil, fmt.Errorf("has %d Nodes; write one into it: kubectl get node NAME -o json", len(objects))
	}
	node := &corev1.Node{}
	if err := objects[0].Decode(node); err != nil {
		return nil, err
	}
	if !nodekind.CanRun(node) {
		return nil, fmt.Errorf("no daemon can run on Node %s, which is virtual or does not run Linux; name another Node", node.Name)
	}
	return node, nil
}
