package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/cpupoold/cpupoold/internal/plugin/simulate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// machineFlags holds the flag --topology of import and render: the machine of the configuration that
// the command prints. The values have the form of simulate's --topology.
type machineFlags struct{ topology string }

func (m *machineFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&m.topology, "topology", "", "compare CPUs with this machine: a `DESCRIPTION` such as 2s8c2t, or a file, - for the standard input")
}

// machine returns the machine of --topology, or nil without the flag.
func (m *machineFlags) machine(s streams) (*topology.Topology, error) {
	if m.topology == "" {
		return nil, nil //nolint:nilnil // the machine is unknown
	}
	return readMachine(s, m.topology)
}

// checkDescriptions returns an error for the first value of a flag that is a description with a
// mistake.
func checkDescriptions(flag string, values ...string) error {
	for _, value := range values {
		if _, text := splitTopology(value); simulate.IsDescription(text) {
			if _, err := simulate.Describe(text); err != nil {
				return fmt.Errorf("--%s%s", flag, strings.TrimPrefix(err.Error(), "topology"))
			}
		}
	}
	return nil
}

func readMachine(s streams, text string) (*topology.Topology, error) {
	if simulate.IsDescription(text) {
		return simulate.Describe(text)
	}
	data, err := read(s.in, text)
	if err != nil {
		return nil, err
	}
	t, err := simulate.Machine(data)
	if err != nil {
		return nil, named(text, err)
	}
	for _, w := range t.Warnings {
		if _, err := fmt.Fprintf(s.err, "warning: %s: %s\n", text, w); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// machines holds the values of --topology of simulate by node. "" is for all other nodes; without it,
// their number of CPUs in the files decides.
type machines map[string]*topology.Topology

// splitTopology splits NODE=MACHINE, a value of --topology. node is empty if no valid name of a node
// precedes the first =. Users write ./ before the name of a file with =.
func splitTopology(value string) (node, machine string) {
	name, rest, found := strings.Cut(value, "=")
	if found && len(validation.IsDNS1123Subdomain(name)) == 0 {
		return name, rest
	}
	return "", value
}

func readMachines(s streams, values []string) (machines, error) {
	m := make(machines)
	var errs []error
	for _, value := range values {
		node, text := splitTopology(value)
		t, err := readMachine(s, text)
		if err == nil && m[node] != nil {
			err = fmt.Errorf("--topology %s: there is another one for the same nodes; give each node one", value)
		}
		m[node] = cmp.Or(m[node], t)
		errs = append(errs, err)
	}
	return m, errors.Join(errs...)
}

// of returns the machine of a node. The note is empty, or states that the machine is assumed or has another
// number of CPUs than the node.
func (m machines) of(node string, objects *simulate.Objects) (*topology.Topology, string, error) {
	if t := cmp.Or(m[node], m[""]); t != nil {
		return t, objects.Differs(node, t), nil
	}
	return objects.Machine(node)
}

// withoutCPUs returns the machine with the CPUs of --offline offline.
func withoutCPUs(t *topology.Topology, offline string) (*topology.Topology, error) {
	if offline == "" {
		return t, nil
	}
	cpus, err := cpuset.Parse(offline)
	if err == nil {
		t, err = simulate.Offline(t, cpus)
	}
	if err != nil {
		return nil, fmt.Errorf("--offline: %w", err)
	}
	return t, nil
}
