package admission_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cpupoold/cpupoold/internal/admission"
)

// node is a schedulable node with amounts of a resource each.
func node(allocatable map[string]int64) admission.Node {
	n := admission.Node{Allocatable: corev1.ResourceList{}}
	for name, amount := range allocatable {
		n.Allocatable[corev1.ResourceName(name)] = *resource.NewQuantity(amount, resource.DecimalSI)
	}
	return n
}

func TestLatch(t *testing.T) {
	const cores = "management.workload.openshift.io/cores"
	with, without, zero := node(map[string]int64{cores: 4000}), node(nil), node(map[string]int64{cores: 0})
	cordoned := without
	cordoned.Unschedulable = true
	gone := with
	gone.Unschedulable = true
	for name, c := range map[string]struct {
		nodes []admission.Node
		want  bool
	}{
		"no node":             {nil, false},
		"all":                 {[]admission.Node{with, with}, true},
		"not all":             {[]admission.Node{with, without}, false},
		"registered anew":     {[]admission.Node{with, zero}, false},
		"cordoned without":    {[]admission.Node{with, cordoned}, true},
		"only cordoned ones":  {[]admission.Node{gone}, false},
		"cordoned, none else": {[]admission.Node{cordoned, cordoned}, false},
	} {
		if got := admission.Latch(cores, c.nodes); got != c.want {
			t.Errorf("%s: Latch = %t, want %t", name, got, c.want)
		}
	}
}

func TestSwitchSettings(t *testing.T) {
	const cores, shared, guaranteed = "management.workload.openshift.io/cores", "openshift.io/shared-cpus", "openshift.io/guaranteed-cpus"
	const on, off, auto = admission.SwitchOn, admission.SwitchOff, admission.SwitchAuto
	all := []admission.Node{node(map[string]int64{shared: 1000}), node(map[string]int64{shared: 0})}
	newcomer := append(all[:2:2], node(nil))
	cordoned := node(nil)
	cordoned.Unschedulable = true
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
		"on, cordoned lacks it":    {switches(on), nil, append(all[:2:2], cordoned), result{true, true, true}},
		"auto, not latched":        {switches(auto), nil, all, result{}},
		"auto, latched":            {switches(auto), latched, all, result{true, true, true}},
		"auto, a newcomer lacks":   {switches(auto), latched, newcomer, result{true, false, true}},
		"auto, one latched":        {switches(auto), map[string]bool{guaranteed: true}, all, result{false, false, true}},
		"auto, another's latched":  {switches(auto), map[string]bool{"x/shared-cpus": true}, all, result{}},
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
