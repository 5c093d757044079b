package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cpupoold/cpupoold/internal/plugin/simulate"
)

// read reads all files but the configurations. Bad are the errors of files and objects that the
// simulation does without.
func (o *simulateOptions) read(s streams) (scenes []*scene, bad []error, err error) {
	machines, err := readMachines(s, o.topology)
	errs := []error{err}
	objects, bad := readObjects(s, o.files, o.namespace)
	if o.trace != "" {
		data, err := read(s.in, o.trace)
		if err == nil {
			o.events, err = simulate.ParseTrace(data, o.namespace)
			if err == nil && len(o.events) == 0 {
				err = errors.New(`no event; write one on each line, such as {"at":"1m","remove":"web"}`)
			}
			err = named(o.trace, err)
		}
		errs = append(errs, err)
	}
	if len(o.files) > 0 && errors.Join(errs...) == nil {
		err := checkObjects(s, objects, bad)
		if err != nil && len(bad) > 0 {
			return nil, nil, err
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, bad, err
	}
	names, err := o.chosen(objects, machines)
	if err != nil {
		return nil, bad, err
	}
	scenes = make([]*scene, len(names))
	for i, name := range names {
		scenes[i] = &scene{node: name}
		scenes[i].unfit = scenes[i].fill(objects, machines, o.offline)
	}
	return scenes, bad, nil
}

// chosen returns the names of the nodes to simulate: "" alone if the files have no nodes.
func (o *simulateOptions) chosen(objects *simulate.Objects, machines machines) ([]string, error) {
	all := objects.Names()
	for node := range machines {
		if node != "" && !slices.Contains(all, node) {
			return nil, fmt.Errorf("--topology %s=: no node in the files has this name", node)
		}
	}
	names, err := objects.Choose(o.nodes)
	if err != nil {
		return nil, err
	}
	switch {
	case len(names) == 0 && machines[""] == nil:
		return nil, errors.New("no machine; " + withoutNodes(objects) + ": describe one with --topology, such as --topology 2s8c2t, or save nodes, too: kubectl get nodes,pods -A -o json")
	case len(names) == 0:
		return []string{""}, nil
	case len(names) > 1 && (o.trace != "" || o.offline != ""):
		return nil, fmt.Errorf("--trace and --offline are for one node, and %d are in the files; choose one with --node", len(names))
	}
	return names, nil
}

func withoutNodes(objects *simulate.Objects) string {
	switch notes := objects.Notes; len(notes) {
	case 0:
		return "the files have no nodes"
	case 1:
		return notes[0]
	default:
		return fmt.Sprintf("%s, and so are other nodes: %d", notes[0], len(notes)-1)
	}
}

// readObjects reads the objects of files. bad are the errors of files and objects that cannot be
// read.
func readObjects(s streams, arguments []string, namespace string) (objects *simulate.Objects, bad []error) {
	objects = &simulate.Objects{}
	files, bad := listFiles(arguments, true, &objects.Coverage)
	for _, file := range files {
		data, err := readUpTo(s.in, file, clusterLimit)
		if err != nil {
			bad = append(bad, err)
			continue
		}
		for _, err := range objects.Read(file, data, namespace) {
			bad = append(bad, fmt.Errorf("%s: %w", file, err))
		}
	}
	return objects, bad
}

// checkObjects returns an error if the files have no objects for a plan. Then the error is bad if
// objects cannot be read. It prints the kinds of skipped objects.
func checkObjects(s streams, objects *simulate.Objects, bad []error) error {
	const wanted = "nodes, pods, workloads, Namespaces, LimitRanges or objects of resource.k8s.io"
	switch coverage := &objects.Coverage; {
	case len(bad) > 0 && coverage.Err(wanted) != nil:
		return errors.Join(bad...)
	case coverage.Complete(): // the output states the numbers of nodes and pods
		return coverage.Err(wanted)
	default:
		return reportCoverage(s, coverage, bad, wanted)
	}
}
