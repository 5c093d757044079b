package podlevel_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
	"github.com/cpupoold/cpupoold/internal/node/view"
	"github.com/cpupoold/cpupoold/internal/testing/testnode/hardware"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// node is a node of 328 CPUs, 8 of them for ResourceClaims, with the pod of a row, and the daemon's plan.
type node struct {
	row      *row
	settings desired.Settings
	input    pools.Input
	plan     pools.Plan
	clock    int64
}

func newNode(t *testing.T, r *row, mode admission.PodLevel) *node {
	t.Helper()
	top := hardware.Machine{Packages: 1, Nodes: 1, L3s: 1, Cores: 164, Threads: 2}.Topology()
	_, fullCores := r.has("full-pcpus-only")
	c, err := config.Parse(fmt.Appendf(nil, `apiVersion: config.cpupoold.io/v1alpha1
kind: CPUPoolConfiguration
shared: {cpus: 0-1}
guaranteed: {cpus: "2-159,164-323", podLevel: %s, options: {full-pcpus-only: %t}, claims: {cpus: "160-163,324-327"}}
`, mode, fullCores), "config.yaml", config.Overrides{}, top)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{row: r}
	if err := n.settings.Change(c, top, nil); err != nil {
		t.Fatal(err)
	}
	n.input = pools.Input{Machine: allocate.New(top), Pools: n.settings.Pools}
	return n
}

// run starts the pod as a kubelet does, with a plan after each step.
func (n *node) run(t *testing.T, asked admission.Asked) {
	t.Helper()
	pod := pools.Pod{UID: "u", Namespace: "default", Name: "p", QoS: pools.QoS(asked.Class), Resources: n.resources(asked.Pod)}
	if _, unknown := n.row.has("no-total"); unknown {
		pod.Resources = pools.Resources{}
	}
	n.input.Pods = []pools.Pod{pod}
	n.build()
	for _, c := range asked.Containers {
		n.start(c.Name, c.Amounts)
		if c.Init {
			n.end(c.Name)
		}
	}
	for _, c := range n.row.pod.Spec.EphemeralContainers { // in this table, no pod has one with resources
		n.start(c.Name, admission.Amounts{Request: asked.Pod.Limit, Limit: asked.Pod.Limit})
	}
	n.input.Pods[0].Settled = true
	n.build()
	if total, resized := n.row.has("total"); resized {
		amounts, err := parseAmounts(total + " | " + total)
		if err != nil {
			t.Fatal(err)
		}
		milli := amounts.Limits.Cpu().MilliValue()
		n.input.Pods[0].Resources = n.resources(admission.Amounts{Request: milli, Limit: milli})
		n.build()
	}
	if name, ended := n.row.has("ended"); ended {
		n.end(name)
	}
}

// resources returns amounts as a kubelet passes them to the runtime.
func (n *node) resources(a admission.Amounts) pools.Resources {
	r := pools.Resources{Shares: workload.MilliCPUToShares(a.Request)}
	if _, off := n.row.has("no-quota"); a.Limit > 0 && !off {
		r.Quota, r.Period = a.Limit*100, 100_000
	}
	return r
}

func (n *node) start(name string, a admission.Amounts) {
	n.clock++
	pod := &n.input.Pods[0]
	pod.Containers = append(pod.Containers, pools.Container{ID: name, Name: name, State: pools.Running, CreatedAt: n.clock, Resources: n.resources(a)})
	n.build()
}

func (n *node) end(name string) {
	n.clock++
	containers := n.input.Pods[0].Containers
	i := slices.IndexFunc(containers, func(c pools.Container) bool { return c.Name == name })
	containers[i].State, containers[i].FinishedAt = pools.Exited, n.clock
	n.build()
}

func (n *node) build() {
	n.plan = pools.Build(n.input)
	n.input.Previous = n.plan.Assignments
}

// held returns the number of exclusive CPUs of the pod.
func (n *node) held() (cpus int) {
	for _, a := range n.plan.Assignments {
		cpus += a.CPUs.Len()
	}
	return cpus
}

// unaccounted returns the use of pools that the node subtracts from its resources.
func (n *node) unaccounted(names workload.Names, record nodestatus.Record) (all []string) {
	v := view.Node{Settings: &n.settings, Plan: &n.plan, Planned: true, Objects: inventory.New(cgroup.DriverSystemd).Objects()}
	for _, a := range nodestatus.Advertise(v.Pools(), v.Pods(), record) {
		name := "shared"
		if a.Name == names.GuaranteedResource() {
			name = "exclusive"
		}
		if a.Unaccounted > 0 {
			all = append(all, fmt.Sprintf("unaccounted %s %d", name, a.Unaccounted))
		}
	}
	return all
}

// record returns the kubelet's record of a pod: the requests of the pod and of containers that
// run as long as it does.
func record(pod *corev1.Pod, d admission.Defaults) nodestatus.Record {
	asked := nodestatus.Asked{Containers: map[string]nodestatus.Request{}}
	if r := pod.Spec.Resources; r != nil && (d != admission.DefaultNothing || len(r.Requests) > 0) {
		asked.Milli = admission.AskedBy(pod, d).Pod.Request
	}
	for i, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if i < len(pod.Spec.InitContainers) && c.RestartPolicy == nil {
			continue
		}
		r := nodestatus.Request{Extended: map[string]int64{}}
		for name, q := range c.Resources.Requests {
			switch {
			case name == corev1.ResourceCPU:
				r.Milli = q.MilliValue()
			case strings.Contains(string(name), "/"):
				r.Extended[string(name)] = q.Value()
			}
		}
		asked.Containers[c.Name] = r
	}
	return nodestatus.Record{string(pod.UID): asked}
}
