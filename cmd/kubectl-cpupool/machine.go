package main

import (
	"github.com/spf13/cobra"

	"github.com/cpupoold/cpupoold/pkg/topology"
)

// machineFlags name the machine that a configuration is for, as those of simulate do.
type machineFlags struct{ topology string }

func (m *machineFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&m.topology, "topology", "", "the machine, to hold CPUs against it: a `DESCRIPTION` such as 2s8c2t, or a file, - for the standard input")
}

// machine is the one that is named, or nil.
func (m *machineFlags) machine(s streams) (*topology.Topology, error) {
	if m.topology == "" {
		return nil, nil //nolint:nilnil // a machine that is not known
	}
	o := simulateOptions{topology: m.topology}
	return o.machine(s)
}
