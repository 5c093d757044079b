package admission_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cpupoold/cpupoold/internal/admission"
)

const (
	coresResource      = "management.workload.openshift.io/cores"
	sharedResource     = "openshift.io/shared-cpus"
	guaranteedResource = "openshift.io/guaranteed-cpus"
)

// node returns a schedulable node with amounts of resources.
func node(allocatable map[string]int64) admission.Node {
	n := admission.Node{Allocatable: corev1.ResourceList{}}
	for name, amount := range allocatable {
		n.Allocatable[corev1.ResourceName(name)] = *resource.NewQuantity(amount, resource.DecimalSI)
	}
	return n
}

// named returns nodes with the names n0, n1 and so on, from the last node to the first.
func named(nodes ...admission.Node) []admission.Node {
	var all []admission.Node
	for i, n := range slices.Backward(nodes) {
		n.Name = fmt.Sprintf("n%d", i)
		all = append(all, n)
	}
	return all
}

func cordoned(n admission.Node) admission.Node {
	n.Unschedulable = true
	return n
}

func reported(n admission.Node) admission.Node {
	n.Reported = true
	return n
}

func withoutDaemon(n admission.Node) admission.Node {
	n.WithoutDaemon = true
	return n
}

func TestLacks(t *testing.T) {
	type lack = admission.Lack
	bare, zero := node(nil), node(map[string]int64{coresResource: 0, sharedResource: 0, guaranteedResource: 0})
	full := node(map[string]int64{coresResource: 4000, sharedResource: 2000, guaranteedResource: 2000})
	sharing := node(map[string]int64{coresResource: 4000, sharedResource: 4000})
	sharingZero := node(map[string]int64{coresResource: 0, sharedResource: 0})
	for name, c := range map[string]struct {
		nodes                     []admission.Node
		cores, shared, guaranteed lack
	}{
		"no node":                       {nil, lack{}, lack{}, lack{}},
		"all have all":                  {named(full, full), lack{Schedulable: 2}, lack{Schedulable: 2}, lack{Schedulable: 2}},
		"cordoned nodes only":           {named(cordoned(full), cordoned(bare)), lack{}, lack{}, lack{}},
		"a cordoned node has nothing":   {named(full, cordoned(bare)), lack{Schedulable: 1}, lack{Schedulable: 1}, lack{Schedulable: 1}},
		"two nodes without a daemon":    {named(full, bare, bare), lack{3, 2, "n1"}, lack{3, 2, "n1"}, lack{3, 2, "n1"}},
		"a guaranteed pool on one node": {named(sharing, full), lack{Schedulable: 2}, lack{Schedulable: 2}, lack{Schedulable: 2}},
		"no guaranteed pool":            {named(sharing, sharing), lack{Schedulable: 2}, lack{Schedulable: 2}, lack{2, 2, "n0"}},
		"the only guaranteed pool is on a cordoned node": {
			named(sharing, cordoned(full)), lack{Schedulable: 1}, lack{Schedulable: 1}, lack{1, 1, "n0"},
		},
		"a daemon that advertises nothing":          {named(full, reported(bare)), lack{2, 1, "n1"}, lack{2, 1, "n1"}, lack{Schedulable: 2}},
		"all daemons advertise nothing":             {named(reported(bare), reported(bare)), lack{2, 2, "n0"}, lack{2, 2, "n0"}, lack{2, 2, "n0"}},
		"registered again, without a daemon":        {named(full, zero), lack{2, 1, "n1"}, lack{2, 1, "n1"}, lack{Schedulable: 2}},
		"all registered again, without a daemon":    {named(zero), lack{1, 1, "n0"}, lack{1, 1, "n0"}, lack{1, 1, "n0"}},
		"no shared pool is left, without a daemon":  {named(full, sharingZero), lack{2, 1, "n1"}, lack{2, 1, "n1"}, lack{Schedulable: 2}},
		"uncounted pods use all pools of all nodes": {named(reported(zero), reported(zero)), lack{Schedulable: 2}, lack{Schedulable: 2}, lack{Schedulable: 2}},
		"uncounted pods use the guaranteed pool": {
			named(sharing, reported(node(map[string]int64{coresResource: 1, sharedResource: 1, guaranteedResource: 0}))),
			lack{Schedulable: 2}, lack{Schedulable: 2}, lack{Schedulable: 2},
		},
		"nodes without a daemon":      {named(full, withoutDaemon(bare)), lack{Schedulable: 1}, lack{Schedulable: 1}, lack{Schedulable: 1}},
		"only nodes without a daemon": {named(withoutDaemon(bare)), lack{}, lack{}, lack{}},
		"guaranteed alone is known":   {named(node(map[string]int64{guaranteedResource: 1})), lack{1, 1, "n0"}, lack{1, 1, "n0"}, lack{Schedulable: 1}},
	} {
		switches := admission.Switches{Types: map[string]admission.Switch{"management": admission.SwitchAuto}}
		got := switches.Lacks(c.nodes)
		if diff := cmp.Diff(map[string]lack{coresResource: c.cores, sharedResource: c.shared, guaranteedResource: c.guaranteed}, got); diff != "" {
			t.Errorf("%s: Lacks (-want +got):\n%s", name, diff)
		}
		for resource, l := range got {
			if want := l.Schedulable > 0 && l.Nodes == 0; l.Closes() != want {
				t.Errorf("%s: latch of %s closes: %t, want %t", name, resource, l.Closes(), want)
			}
		}
	}
}

func TestSwitchSettings(t *testing.T) {
	const cores, shared, guaranteed = coresResource, sharedResource, guaranteedResource
	const on, off, auto = admission.SwitchOn, admission.SwitchOff, admission.SwitchAuto
	all := []admission.Node{node(map[string]int64{shared: 1000}), node(map[string]int64{shared: 0})}
	newcomer := append(all[:2:2], node(nil))
	latched := map[string]bool{cores: true, shared: true, guaranteed: true}
	switches := func(is admission.Switch) admission.Switches {
		return admission.Switches{Types: map[string]admission.Switch{"management": is}, SharedCPUs: is, GuaranteedCPUs: is}
	}
	type result struct{ management, shared, guaranteed bool }
	for name, c := range map[string]struct {
		switches admission.Switches
		latched  map[string]bool
		nodes    []admission.Node
		want     result
	}{
		"off":                      {switches(off), latched, all, result{}},
		"not set":                  {switches(""), latched, all, result{}},
		"on":                       {switches(on), nil, all, result{true, true, true}},
		"on, a node lacks it":      {switches(on), nil, newcomer, result{true, false, true}},
		"on, no node":              {switches(on), nil, nil, result{true, false, true}},
		"on, cordoned lacks it":    {switches(on), nil, append(all[:2:2], cordoned(node(nil))), result{true, true, true}},
		"auto, not latched":        {switches(auto), nil, all, result{}},
		"auto, latched":            {switches(auto), latched, all, result{true, true, true}},
		"auto, a newcomer lacks":   {switches(auto), latched, newcomer, result{true, false, true}},
		"auto, one latched":        {switches(auto), map[string]bool{guaranteed: true}, all, result{false, false, true}},
		"auto, another's latched":  {switches(auto), map[string]bool{"x/shared-cpus": true}, all, result{}},
		"on, no daemon can run":    {switches(on), nil, append(all[:2:2], withoutDaemon(node(nil))), result{true, true, true}},
		"auto, latched, and empty": {switches(auto), latched, nil, result{true, false, true}},
	} {
		s := c.switches.Settings(c.latched, c.nodes)
		if got := (result{s.Types["management"], s.SharedCPUs, s.GuaranteedCPUs}); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	want := map[string]admission.Switch{cores: auto, shared: auto, guaranteed: auto}
	if diff := cmp.Diff(want, switches(auto).Resources()); diff != "" {
		t.Errorf("Resources (-want +got):\n%s", diff)
	}
}

// TestWaits checks that the settings have the nodes that keep a resource off, and no nodes
// for a resource that is on or that its switch keeps off.
func TestWaits(t *testing.T) {
	const auto, on, off = admission.SwitchAuto, admission.SwitchOn, admission.SwitchOff
	nodes := named(node(map[string]int64{coresResource: 1, guaranteedResource: 1}), node(nil), node(nil), cordoned(node(nil)))
	lacks := func(nodes int, example string) admission.Lack {
		return admission.Lack{Schedulable: 3, Nodes: nodes, Example: example}
	}
	for name, c := range map[string]struct {
		is      admission.Switch
		latched bool
		want    map[string]admission.Lack
	}{
		"auto": {auto, false, map[string]admission.Lack{
			coresResource: lacks(2, "n1"), sharedResource: lacks(3, "n0"), guaranteedResource: lacks(2, "n1"),
		}},
		// Settings keeps the shared resource off as long as a node lacks it.
		"auto, latched": {auto, true, map[string]admission.Lack{sharedResource: lacks(3, "n0")}},
		"on":            {on, false, map[string]admission.Lack{sharedResource: lacks(3, "n0")}},
		"off":           {off, false, map[string]admission.Lack{}},
	} {
		s := admission.Switches{Types: map[string]admission.Switch{"management": c.is}, SharedCPUs: c.is, GuaranteedCPUs: c.is}
		got := s.Settings(map[string]bool{coresResource: c.latched, sharedResource: c.latched, guaranteedResource: c.latched}, nodes)
		if diff := cmp.Diff(c.want, got.Waits); diff != "" {
			t.Errorf("%s: Waits (-want +got):\n%s", name, diff)
		}
		if _, configured := got.Types["management"]; !configured || len(got.Types) != 1 {
			t.Errorf("%s: Types = %v, want the type with a switch", name, got.Types)
		}
	}
}
