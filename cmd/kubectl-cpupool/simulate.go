package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/plugin/simulate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

const simulateHelp = `Shows what cpupoold would do on a node: which pool and which CPUs each container gets
and why, what is left, and who is refused something. It is the daemon's own planner.
Nothing is read or changed but the files that are named.

The machine is a description, or a file: XML of lstopo, or what cpupoold topology -o
json or cpupoold status -o json has printed. A description has counts that nest in the
order in which they stand, each per unit of the one before: s sockets, then n NUMA
nodes, d dies and l last-level caches, c cores, t threads. 2s8c2t are 2 sockets of 8
cores each, with 2 threads each: 32 CPUs.

Pods are those of manifests, with as many as workloads ask for, or of a saved node:

  kubectl get pods,namespaces -A -o json | kubectl cpupool simulate --topology 2s8c2t \
    --config cpupoold.yaml --node worker-1 -f -

They come in the order of the files, those of a saved node before, as they came. With
--trace they come, go and change over time; a pod that the trace adds is not there
before. With --compare both configurations are simulated, and the differences shown.

Exit codes: 0 no requests refused, 3 a request refused at any time (with --compare, by
the other configuration), 1 simulation failed, 2 usage.`

// simulateOptions are the flags of simulate.
type simulateOptions struct {
	topology  string
	offline   string
	config    string
	compare   string
	files     []string
	namespace string
	node      string
	trace     string
	output    string
	defaults  admission.Defaults
}

func simulateCommand(s streams) *cobra.Command {
	o := &simulateOptions{}
	cmd := &cobra.Command{
		Use:   "simulate --topology DESCRIPTION|FILE [-f FILE|DIR] [--config FILE]",
		Short: "plan pods on a machine that is only described",
		Long:  simulateHelp,
		Args:  flagsOnly(o.check),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(s, cmd.Flags().Changed("compare"))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.topology, "topology", "", "the machine: a `DESCRIPTION` such as 2s8c2t, or a file, - for the standard input")
	flags.StringVar(&o.offline, "offline", "", "`CPUS` of the machine that are offline from the beginning, such as 4-5,9")
	flags.StringVar(&o.config, "config", "", "configuration `FILE` of cpupoold (default: none, one shared pool of all CPUs)")
	flags.StringVar(&o.compare, "compare", "", "another configuration `FILE`, to see what it changes; empty for none, the defaults")
	flags.StringArrayVarP(&o.files, "filename", "f", nil, "`FILE` of pods, workloads and namespaces, - for the standard input, or a tree of files; may be repeated")
	flags.StringVarP(&o.namespace, "namespace", "n", "default", "`NAMESPACE` of objects that name none")
	flags.StringVar(&o.node, "node", "", "`NODE` whose pods are meant, where those of several were saved")
	addDefaults(flags, &o.defaults)
	flags.StringVar(&o.trace, "trace", "", "`FILE` of events, one JSON object for each line, - for the standard input")
	flags.StringVarP(&o.output, "output", "o", "table", "`FORMAT`: table or json")
	return cmd
}

func (o *simulateOptions) check() error {
	stdin := 0
	for _, file := range append([]string{o.topology, o.trace}, o.files...) {
		if file == "-" {
			stdin++
		}
	}
	switch {
	case o.topology == "":
		return errors.New("no machine; describe one with --topology, such as --topology 2s8c2t, or name a file")
	case stdin > 1:
		return errors.New("the standard input can be read once; name files for the others")
	case o.output != "table" && o.output != "json":
		return fmt.Errorf("--output %q: no such format; write table or json", o.output)
	}
	return nil
}

// scene is what a simulation is made of, but for the configuration.
type scene struct {
	machine  *topology.Topology
	objects  simulate.Objects
	events   []simulate.Event
	defaults admission.Defaults
}

func (o *simulateOptions) run(s streams, compare bool) error {
	scene, err := o.read(s)
	if err != nil {
		return err
	}
	before, err := scene.simulate(o.config)
	if err != nil {
		return err
	}
	var shown any = before
	refused := len(before.Refused) > 0
	show := func() error { return printSimulation(s.out, before) }
	if compare {
		after, err := scene.simulate(o.compare)
		if err != nil {
			return err
		}
		c := simulate.Compare(before, after)
		shown, refused = c, len(after.Refused) > 0
		show = func() error { return printComparison(s.out, c) }
	}
	if o.output == "json" {
		show = func() error { return printJSON(s.out, shown) }
	}
	if err := show(); err != nil {
		return err
	}
	if refused {
		return errRefused
	}
	return nil
}

// read reads all files but the configurations.
func (o *simulateOptions) read(s streams) (*scene, error) {
	at := &scene{defaults: o.defaults}
	var errs []error
	var err error
	if at.machine, err = o.machine(s); err != nil {
		errs = append(errs, err)
	}
	files, _, bad := listFiles(o.files, true)
	errs = append(errs, bad...)
	for _, file := range files {
		data, err := read(s.in, file)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, err := range at.objects.Read(data, o.namespace) {
			errs = append(errs, fmt.Errorf("%s: %w", file, err))
		}
	}
	if err := at.objects.Select(o.node); err != nil {
		errs = append(errs, err)
	}
	if o.trace != "" {
		data, err := read(s.in, o.trace)
		if err == nil {
			if at.events, err = simulate.ParseTrace(data, o.namespace); err != nil {
				err = fmt.Errorf("%s: %w", o.trace, err)
			}
		}
		errs = append(errs, err)
	}
	return at, errors.Join(errs...)
}

func (o *simulateOptions) machine(s streams) (*topology.Topology, error) {
	var t *topology.Topology
	if simulate.IsDescription(o.topology) {
		described, err := simulate.Describe(o.topology)
		if err != nil {
			return nil, err
		}
		t = described
	} else {
		data, err := read(s.in, o.topology)
		if err != nil {
			return nil, err
		}
		if t, err = simulate.Machine(data); err != nil {
			return nil, fmt.Errorf("%s: %w", o.topology, err)
		}
	}
	if o.offline == "" {
		return t, nil
	}
	cpus, err := cpuset.Parse(o.offline)
	if err == nil {
		t, err = simulate.Offline(t, cpus)
	}
	if err != nil {
		return nil, fmt.Errorf("--offline: %w", err)
	}
	return t, nil
}

// simulate runs a configuration; the name "" is the defaults.
func (at *scene) simulate(file string) (*simulate.Document, error) {
	c, err := config.Load(file, config.Overrides{}, nil)
	if err != nil {
		return nil, err
	}
	node, err := simulate.NewNode(c, at.machine, at.objects.Namespaces)
	if err != nil {
		return nil, err
	}
	node.Defaults = at.defaults
	steps, err := node.Run(&at.objects, at.events)
	if err != nil {
		return nil, err
	}
	d := node.Document(file)
	d.Steps = steps
	d.Notes = append(d.Notes, at.objects.Notes...)
	return d, nil
}
