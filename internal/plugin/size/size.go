// Package size packs the pods of a cluster onto nodes that need not exist. It returns the
// number of nodes of each kind, the CPUs that stay unused, and sizes of the pools that need fewer
// nodes.
//
// Pods are as the webhook would have them. The scheduler's rules for amounts, taints and labels
// decide whether a node takes a pod. Then the planner of the daemon gives each container its
// exclusive CPUs. The order is first fit, with the largest pods first.
package size

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/plugin/simulate"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// Kind is a kind of node.
type Kind struct {
	// Name precedes the number in the names of the nodes.
	Name     string
	Topology *topology.Topology
	Config   *config.Config
	// File is the name of the configuration.
	File string
	// Node has the labels, the taints and the allocatable amounts of the nodes. It is nil if only
	// the machine is known.
	Node *corev1.Node
}

// Input holds the pods and the kinds of nodes.
type Input struct {
	// Kinds are in the order of preference.
	Kinds []Kind
	// Objects are the result of [simulate.Objects.Fleet].
	Objects *simulate.Objects
	// Defaults states which values of spec.resources the API server sets.
	Defaults admission.Defaults
	// NoWebhook leaves the pods as they are.
	NoWebhook bool
	// Progress is called when a packing begins. It returns functions for each pod and for the end.
	// It may be nil.
	Progress func(what string) (step func(all int), end func())
}

// Plan packs the pods, and tries other sizes of the pools.
func Plan(in *Input) (*Document, error) {
	if len(in.Kinds) == 0 {
		return nil, errors.New("no kind of node")
	}
	d, err := newDemand(in)
	if err != nil {
		return nil, err
	}
	p, err := d.pack(in.Kinds, "pods packed")
	if err != nil {
		return nil, err
	}
	savings, tried, err := p.savings()
	if err != nil {
		return nil, err
	}
	doc, err := p.document()
	doc.Savings, doc.Tried = savings, tried
	return doc, err
}

func (d *demand) pack(kinds []Kind, what string) (*packing, error) {
	p := &packing{demand: d}
	for i := range kinds {
		k, err := d.newKind(&kinds[i])
		if err != nil {
			return nil, fmt.Errorf("machine %s: %w", kinds[i].Name, err)
		}
		p.kinds = append(p.kinds, k)
	}
	step, end := func(int) {}, func() {}
	if d.in.Progress != nil {
		step, end = d.in.Progress(what)
	}
	defer end()
	return p, p.run(step)
}
