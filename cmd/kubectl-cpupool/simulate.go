package main

import (
	"cmp"
	_ "embed" // of the configuration of a fresh installation
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/explain"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/plugin/simulate"
	"github.com/cpupoold/cpupoold/internal/usage"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

const simulateHelp = `Shows the plan of cpupoold for a node: pool and CPUs of each container with the reason,
free CPUs, and refused containers. It uses the planner of the daemon. It reads only the
named files, and changes nothing.

This simulates each node of a running cluster with its pods, in the pools of a fresh installation:

  kubectl get nodes,pods -A -o json > cluster.json
  kubectl cpupool simulate -f cluster.json -o json > plan.json
  kubectl cpupool serve -f plan.json

A Node object contains only the number of its CPUs. The output states the machine that the
command assumes. --topology sets another machine, or the machine of a node that is in no
file. Its value is a description or a file. The file is XML of lstopo, or the output of
cpupoold topology -o json or cpupoold status -o json. A description has counts from the
outermost level to the innermost, each per unit of the previous level: s sockets, then n
NUMA nodes, d dies and l last-level caches, c cores, t threads. 2s8c2t are 2 sockets of
8 cores each, with 2 threads each: 32 CPUs.

  kubectl cpupool simulate -f cluster.json --topology 2s8c2t --topology edge-1=edge-1.xml
  kubectl cpupool simulate --topology 2s8c2t -f pods.yaml --config cpupoold.yaml

The files contain manifests or saved pods. A workload in a manifest adds as many pods as its
replicas. Saved pods stay on their node. The simulation starts the saved pods first, in the
order of their creation, then the others in the order of the files.

If the files contain objects of resource.k8s.io/v1, the allocator of the scheduler allocates
devices to the ResourceClaims of each pod. The ResourceSlice of CPUs follows from the
configuration (guaranteed.claims). Slices of other drivers come from the files. The output
states why a pod cannot run.

The standard error names the skipped objects. An unreadable object, such as a pod with 9000
CPUs, is an error; the command simulates the others. Files without a readable object are an
error. With --trace, pods start, end and change over time. A pod that the trace adds is
absent before. With --compare, the command simulates both configurations and prints the
differences.

With --explain, the output is one sentence: why a pod has its CPUs, and what to change.

Exit codes: 0 no requests refused, 3 a request refused at any time (with --compare, by
the other configuration), or an object not simulated, 1 nothing simulated, 2 usage.`

// fresh is the configuration of a fresh installation.
//
//go:embed fresh.yaml
var fresh []byte

type simulateOptions struct {
	topology  []string
	offline   string
	config    string
	fresh     bool // no --config
	compare   string
	compares  bool
	files     []string
	namespace string
	nodes     []string
	trace     string
	explain   string
	details   bool
	numa      []string
	output    string
	defaults  admission.Defaults
	events    []simulate.Event // of the trace
	progress  io.Writer        // for progress on a terminal
}

func simulateCommand(s streams) *cobra.Command {
	o := &simulateOptions{}
	cmd := &cobra.Command{
		Use:   "simulate [-f FILE|DIR] [--topology [NODE=]DESCRIPTION|FILE] [--config FILE]",
		Short: "Plan the pods of a cluster or of files on described machines",
		Long:  simulateHelp,
		Args:  flagsOnly(o.check),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.fresh, o.compares = !cmd.Flags().Changed("config"), cmd.Flags().Changed("compare")
			if o.explain != "" && o.compares {
				return usage.New(cmd, errors.New("--explain is for one configuration; remove --compare"))
			}
			return o.run(s)
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&o.topology, "topology", nil, "the machine: a `[NODE=]DESCRIPTION` such as 2s8c2t, or a file, - for the standard input; NODE= sets it for one node; may be repeated (default: the number of CPUs of the Node object)")
	flags.StringVar(&o.offline, "offline", "", "`CPUS` of the machine that are offline from the beginning, such as 4-5,9")
	flags.StringVar(&o.config, "config", "", "configuration `FILE` of cpupoold; empty for none, one shared pool of all CPUs (default: the pools of a fresh installation)")
	flags.StringVar(&o.compare, "compare", "", "configuration `FILE` to compare with; empty for none, one shared pool of all CPUs")
	flags.StringArrayVarP(&o.files, "filename", "f", nil, "`FILE` of nodes, pods, workloads and namespaces, - for the standard input, or a tree of files; may be repeated")
	flags.StringVarP(&o.namespace, "namespace", "n", "default", "`NAMESPACE` of objects without a namespace")
	flags.StringSliceVar(&o.nodes, "node", nil, "`NODE` to simulate; may be repeated (default: all of the files)")
	addDefaults(flags, &o.defaults)
	flags.StringVar(&o.trace, "trace", "", "`FILE` of events of one node, one JSON object for each line, - for the standard input")
	flags.StringVar(&o.explain, "explain", "", "print why `POD[/CONTAINER]` has its CPUs, instead of the plan")
	flags.BoolVar(&o.details, "details", false, "with --explain, also print rules, candidates and changes")
	flags.StringSliceVar(&o.numa, "numa-attribute", nil, "also publish the NUMA node of CPUs as attribute `NAME`, such as dra.net/numaNode; may be repeated")
	flags.StringVarP(&o.output, "output", "o", "table", "`FORMAT`: table or json")
	return cmd
}

func (o *simulateOptions) check() error {
	files := append([]string{o.trace}, o.files...)
	for _, value := range o.topology {
		_, file := splitTopology(value)
		files = append(files, file)
	}
	switch {
	case len(o.topology) == 0 && len(o.files) == 0:
		return errors.New("no machine; name a file of kubectl get nodes,pods -A -o json with -f, or describe one with --topology, such as --topology 2s8c2t")
	case o.details && o.explain == "":
		return errors.New("--details has an effect with --explain only; name a pod with --explain, or remove --details")
	case o.output != "table" && o.output != "json":
		return fmt.Errorf("--output %q: no such format; write table or json", o.output)
	}
	for _, name := range o.numa {
		domain, id, _ := strings.Cut(name, "/")
		if len(validation.IsDNS1123Subdomain(domain))+len(validation.IsCIdentifier(id)) > 0 {
			return fmt.Errorf("--numa-attribute %q: is no name of an attribute; write a domain and an identifier, such as dra.net/numaNode", name)
		}
		if len(domain) > resourcev1.DeviceMaxDomainLength || len(id) > resourcev1.DeviceMaxIDLength {
			return fmt.Errorf("--numa-attribute %q: a domain has at most %d bytes, and an identifier %d; shorten it", name, resourcev1.DeviceMaxDomainLength, resourcev1.DeviceMaxIDLength)
		}
	}
	return cmp.Or(checkStdin(files...), checkDescriptions("topology", o.topology...))
}

// scene holds a node with its machine and its objects.
type scene struct {
	node    string // empty: there is no node in the files
	machine *topology.Topology
	objects *simulate.Objects
	unfit   error // the reason why the node cannot be simulated, or nil
}

func (o *simulateOptions) run(s streams) error {
	scenes, bad, err := o.read(s)
	for _, err := range bad {
		complain(s.err, fmt.Errorf("not simulated: %w", err))
	}
	if err != nil {
		return err
	}
	var documents []*simulate.Document
	var comparisons []*simulate.Comparison
	var errs []error
	var missing error
	refused := false
	o.progress = s.err
	for _, at := range scenes {
		d, c, err := o.simulate(at)
		if _, elsewhere := errors.AsType[*inspect.NameError](err); elsewhere && len(scenes) > 1 {
			missing = err // the explained pod can be on another node
			continue
		}
		if err != nil {
			errs = append(errs, at.named(err))
			continue
		}
		documents = append(documents, d)
		if c != nil {
			comparisons = append(comparisons, c)
			d = c.After
		}
		refused = refused || len(d.Refused) > 0
	}
	if len(documents) == 0 {
		return errors.Join(append(errs, missing)...)
	}
	for _, err := range errs {
		fmt.Fprintln(s.err, "note: left out:", layout.Printable(err.Error()))
	}
	value := each(documents)
	if o.compares {
		value = each(comparisons)
	}
	if err := s.show(o.output, value, func(w *layout.Writer) {
		switch {
		case o.compares:
			printComparisons(w, comparisons)
		case o.explain != "":
			for _, d := range documents {
				explain.Print(w, d.Explanation, o.details)
			}
		default:
			printSimulations(w, documents)
		}
	}); err != nil {
		return err
	}
	if refused || len(bad) > 0 {
		return errRefused
	}
	return nil
}

// each returns the document of one node as it is, and a document with the list of several nodes.
func each[D any](documents []D) any {
	if len(documents) == 1 {
		return documents[0]
	}
	return struct {
		Version int `json:"version"`
		Nodes   []D `json:"nodes"`
	}{simulate.Version, documents}
}

// named adds the name of the node, which the error of an unfit node has.
func (at *scene) named(err error) error {
	if at.node == "" || at.unfit != nil {
		return err
	}
	return fmt.Errorf("node %s: %w", at.node, err)
}

func (at *scene) fill(objects *simulate.Objects, machines machines, offline string) error {
	var note string
	var err error
	if at.objects, err = objects.On(at.node); err != nil {
		return err
	}
	if at.machine, note, err = machines.of(at.node, objects); err != nil {
		return err
	}
	if note != "" {
		at.objects.Notes = append(at.objects.Notes, note)
	}
	at.machine, err = withoutCPUs(at.machine, offline)
	return err
}

// simulate runs the configuration on a node, and compares it with the other one if there is
// one.
func (o *simulateOptions) simulate(at *scene) (*simulate.Document, *simulate.Comparison, error) {
	if at.unfit != nil {
		return nil, nil, at.unfit
	}
	before, err := o.simulateWith(at, o.config, o.fresh, o.explain)
	if err != nil || !o.compares {
		return before, nil, err
	}
	after, err := o.simulateWith(at, o.compare, false, "")
	if err != nil {
		return nil, nil, err
	}
	return before, simulate.Compare(before, after), nil
}

// simulateWith runs a configuration, and explains a pod unless its name is empty. The name "" of the
// configuration is no file.
func (o *simulateOptions) simulateWith(at *scene, file string, installed bool, pod string) (*simulate.Document, error) {
	c, err := config.Load(file, config.Overrides{}, nil)
	if installed {
		c, err = config.Parse(fresh, "fresh installation", config.Overrides{}, nil)
	}
	if err != nil {
		return nil, err
	}
	node, err := simulate.NewNode(c, at.machine, at.objects.Namespaces)
	if err != nil && installed {
		err = fmt.Errorf("%w; --config names another configuration", err)
	}
	if err != nil {
		return nil, err
	}
	node.Defaults, node.NUMAAttributes = o.defaults, o.numa
	p := newProgress(o.progress, "pods")
	node.Progress = p.step
	steps, err := node.Run(at.objects, o.events)
	p.end()
	if err != nil {
		return nil, err
	}
	d := node.Document(file)
	if pod != "" {
		if d.Explanation, err = node.Explain(pod); err != nil {
			return nil, err
		}
	}
	if o.output == "json" && o.explain == "" && !o.compares {
		d.Subjects = node.Subjects()
	}
	d.Node, d.Config.Fresh, d.Steps = at.node, installed, steps
	d.Notes = append(d.Notes, at.objects.Notes...)
	return d, nil
}
