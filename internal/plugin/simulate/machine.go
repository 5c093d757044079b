package simulate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// Machine makes the topology that a file holds: XML of lstopo, what `cpupoold topology
// -o json` prints, or a status with it (`cpupoold status -o json`).
func Machine(data []byte) (*topology.Topology, error) {
	data = bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))
	switch {
	case len(data) == 0:
		return nil, errors.New("the file is empty; write a topology into it: cpupoold topology -o json, or lstopo --of xml")
	case data[0] == '<':
		return ParseLstopo(data)
	case data[0] == '{':
		return parseJSON(data)
	}
	return nil, errors.New("neither XML of lstopo nor JSON of cpupoold topology, nor of cpupoold status")
}

// parseJSON reads a topology, or the part of a larger document that is one.
func parseJSON(data []byte) (*topology.Topology, error) {
	var document struct {
		Topology *topology.Topology `json:"topology"`
	}
	if err := json.Unmarshal(data, &document); err != nil {
		return nil, fmt.Errorf("JSON: %w", err)
	}
	t := document.Topology
	if t == nil {
		t = &topology.Topology{}
		if err := json.Unmarshal(data, t); err != nil {
			return nil, fmt.Errorf("topology: %w", err)
		}
	}
	if len(t.CPUs) == 0 {
		return nil, errors.New("no topology in it; cpupoold topology -o json and cpupoold status -o json print one")
	}
	again, err := reassemble(t)
	if err != nil {
		return nil, fmt.Errorf("topology: %w", err)
	}
	return again, nil
}

// reassemble returns a topology of the places of another's CPUs, so that its parts agree. It keeps the
// numbers of packages and dies, which may be equal, and the warnings.
func reassemble(t *topology.Topology) (*topology.Topology, error) {
	places := make([]topology.Place, len(t.CPUs))
	for i, c := range t.CPUs {
		for _, x := range []struct {
			what      string
			at, count int
		}{
			{"cores", c.Core, len(t.Cores)}, {"l3s", c.L3, len(t.L3s)}, {"dies", c.Die, len(t.Dies)},
			{"packages", c.Package, len(t.Packages)}, {"nodes", c.Node, len(t.Nodes)},
		} {
			if x.at < 0 || x.at >= x.count {
				return nil, fmt.Errorf("CPU %d is of number %d of %s, which has %d", c.ID, x.at, x.what, x.count)
			}
		}
		places[i] = topology.Place{ID: c.ID, Core: c.Core, L3: c.L3, Die: c.Die, Package: c.Package, Node: t.Nodes[c.Node].ID,
			Kind: c.Kind, Capacity: c.Capacity}
	}
	again, err := topology.Assemble(places, t.Nodes)
	if err != nil {
		return nil, err
	}
	for _, c := range t.CPUs {
		place, _ := again.CPU(c.ID)
		if pkg := &again.Packages[place.Package]; pkg.CPUs.First() == c.ID {
			pkg.ID = t.Packages[c.Package].ID
		}
		if die := &again.Dies[place.Die]; die.CPUs.First() == c.ID {
			die.ID = t.Dies[c.Die].ID
		}
	}
	again.Warnings = append(slices.Clone(t.Warnings), again.Warnings...)
	again.Present = t.Present.Union(again.Online)
	again.Possible = t.Possible.Union(again.Present)
	again.Isolated, again.NohzFull = t.Isolated, t.NohzFull
	return again, nil
}

// Offline returns the machine with CPUs offline that it has. One has to stay.
func Offline(t *topology.Topology, cpus cpuset.Set) (*topology.Topology, error) {
	switch missing := cpus.Difference(t.Present); {
	case !missing.IsEmpty():
		return nil, fmt.Errorf("offline CPUs %s: the machine has no such CPUs; it has %s", missing, t.Present)
	case t.Online.IsSubsetOf(cpus):
		return nil, fmt.Errorf("offline CPUs %s: no CPU is left", cpus)
	}
	return t.Without(cpus), nil
}
