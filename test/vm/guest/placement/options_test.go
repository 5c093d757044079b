//go:build guest

package placement_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

// whole returns a container that requests exclusive CPUs.
func whole(name string, cpus int) manifest.Container {
	return manifest.Container{Name: name, CPU: strconv.Itoa(cpus), Memory: "20Mi", Limited: true}
}

// pod is one of the namespace default.
func pod(name string, containers ...manifest.Container) manifest.Pod {
	return manifest.Pod{Name: name, Namespace: "default", Containers: containers}
}

// with adds an annotation.
func with(p manifest.Pod, key, value string) manifest.Pod {
	p.Annotations = map[string]string{key: value}
	return p
}

// option is a configuration's lines for one option.
func option(name, value string) string { return fmt.Sprintf("  options:\n    %s: %s\n", name, value) }

// scenario is pods on a configuration.
type scenario struct {
	name   string
	skip   bool   // the option has no effect on this machine
	lines  string // of the section guaranteed
	pods   []manifest.Pod
	expect expectations
}

// TestOptions checks that each option has its documented effect on real containers.
func TestOptions(t *testing.T) {
	for _, s := range scenarios(readMachine(t)) {
		t.Run(s.name, func(t *testing.T) {
			if s.skip {
				t.Skip("a machine of this shape cannot show it")
			}
			n := newNode(t)
			n.StartDaemon(n.fixed(s.lines))
			n.apply(pod("neighbour", manifest.Container{Name: "app"}))
			n.apply(s.pods...)
			s.expect["neighbour/app"] = rule{}
			before := n.meets(s.expect)
			n.Run("systemctl", "restart", "cpupoold")
			after := n.meets(s.expect)
			for who, set := range before {
				if !after[who].Equal(set) {
					t.Errorf("CPUs of %s changed from %s to %s at a restart of the daemon; want no change", who, set, after[who])
				}
			}
		})
	}
}

// scenarios returns the scenarios of all options. Some have no effect on a machine without SMT, or with one cache
// in a node.
func scenarios(m machine) []scenario {
	threads := m.ThreadsPerCore()
	// More than one node has, and as much of each of two.
	across := m.free(0).Len() + threads
	across += across % (2 * threads)
	return []scenario{
		{
			name: "defaults", pods: []manifest.Pod{pod("a", whole("app", 2)), pod("b", whole("app", 2))},
			expect: expectations{
				"a/app": {cpus: 2, cores: 2 / threads, l3s: 1, nodes: 1}, "b/app": {cpus: 2, cores: 2 / threads, l3s: 1, nodes: 1},
			},
		},
		{
			name: "containers of a pod", pods: []manifest.Pod{pod("a", whole("x", 1), whole("y", 1), manifest.Container{
				Name: "side", CPU: "100m", Memory: "20Mi", Limited: true})},
			expect: expectations{"a/x": {cpus: 1}, "a/y": {cpus: 1}, "a/side": {}},
		},
		{
			name: "too many", pods: []manifest.Pod{pod("a", whole("app", m.guaranteed.Len()+1)), pod("b", whole("app", 1))},
			expect: expectations{"a/app": {code: allocate.TooFewFree}, "b/app": {cpus: 1}},
		},
		{
			name: "full-pcpus-only", skip: !m.smt(), lines: option("full-pcpus-only", "true"),
			pods: []manifest.Pod{pod("a", whole("app", 2)), pod("odd", whole("app", 3)), pod("b", whole("app", 4))},
			expect: expectations{
				"a/app": {cpus: 2, whole: true, cores: 1}, "odd/app": {code: allocate.SMTAlignment}, "b/app": {cpus: 4, whole: true, cores: 2},
			},
		},
		{
			name: "distribute-cpus-across-numa", lines: option("distribute-cpus-across-numa", "true"),
			pods: []manifest.Pod{pod("a", whole("app", across))}, expect: expectations{"a/app": {cpus: across, evenly: true}},
		},
		{
			name: "distribute-cpus-across-cores", skip: !m.smt(), lines: option("distribute-cpus-across-cores", "true"),
			// The limit is the number of cores of a node, which takes precedence over cores.
			pods: []manifest.Pod{pod("a", whole("app", 3))}, expect: expectations{"a/app": {cpus: 3, cores: 3}},
		},
		{
			name: "align-by-socket", lines: option("align-by-socket", "true"), skip: len(m.Packages) > len(m.Nodes),
			pods: []manifest.Pod{pod("a", whole("app", m.free(0).Len()))}, expect: expectations{"a/app": {cpus: m.free(0).Len(), nodes: 1}},
		},
		{
			name: "prefer-align-cpus-by-uncorecache", skip: !m.cached(), lines: option("prefer-align-cpus-by-uncorecache", "true"),
			pods: []manifest.Pod{pod("a", whole("app", 2)), pod("b", whole("app", 4)), pod("c", whole("app", 4))},
			expect: expectations{
				"a/app": {cpus: 2, l3s: 1}, "b/app": {cpus: 4, l3s: 1, whole: true}, "c/app": {cpus: 4, l3s: 1, whole: true},
			},
		},
		{
			name: "one-owner-per-core", skip: !m.smt(), lines: option("one-owner-per-core", "true"),
			pods:   []manifest.Pod{pod("a", whole("app", 1)), pod("b", whole("app", 1)), pod("c", whole("app", 3))},
			expect: expectations{"a/app": {cpus: 1}, "b/app": {cpus: 1}, "c/app": {cpus: 3, cores: 2}},
		},
		{
			name: "single-numa-node", lines: option("topology-policy", "single-numa-node"),
			pods: []manifest.Pod{pod("a", whole("app", 2)), pod("large", whole("app", across))},
			expect: expectations{
				"a/app": {cpus: 2, nodes: 1}, "large/app": {code: allocate.NotOnOneNode},
			},
		},
		{
			name: "override by annotation", skip: !m.smt(), lines: "  overrides: [distribute-cpus-across-cores]\n",
			pods: []manifest.Pod{
				with(pod("a", whole("app", 2)), "cpupoold.io/distribute-cpus-across-cores", "true"),
				with(pod("b", whole("app", 2)), "cpupoold.io/one-owner-per-core", "true"), // which the configuration does not allow
			},
			expect: expectations{"a/app": {cpus: 2, cores: 2}, "b/app": {cpus: 2}},
		},
	}
}

// TestOneOwnerPerCore checks that the sibling thread of an owner stays empty, although the next owner
// requests a single CPU.
func TestOneOwnerPerCore(t *testing.T) {
	n := newNode(t)
	if !n.smt() {
		t.Skip("needs cores of several threads")
	}
	n.StartDaemon(n.fixed(option("one-owner-per-core", "true")))
	n.apply(pod("a", whole("app", 1)), pod("b", whole("app", 1)))
	sets := n.meets(expectations{"a/app": {cpus: 1}, "b/app": {cpus: 1}})
	if a, b := sets["a/app"], sets["b/app"]; n.ThreadSiblings(a.First()).Overlaps(b) {
		t.Errorf("CPUs of a and b = %s, %s; want no common core", a, b)
	}
}

// TestMemoryBinding checks that the memory of an owner comes from the nodes of its CPUs, and the memory of
// other containers from anywhere.
func TestMemoryBinding(t *testing.T) {
	n := newNode(t)
	n.StartDaemon(n.fixed("  memory: bind\n" + option("topology-policy", "single-numa-node")))
	n.apply(pod("a", whole("app", 2)), pod("neighbour", manifest.Container{Name: "app"}))
	sets := n.meets(expectations{"a/app": {cpus: 2, nodes: 1}, "neighbour/app": {}})
	cpu, _ := n.CPU(sets["a/app"].First())
	for pod, want := range map[string]string{"a": fmt.Sprint(n.Nodes[cpu.Node].ID), "neighbour": "0-1"} {
		p, err := n.find(pod, "app")
		if err != nil {
			t.Fatal(err)
		}
		got, err := n.FS.ReadFile(p, "cpuset.mems.effective")
		if err != nil || string(got) != want+"\n" {
			t.Errorf("cpuset.mems.effective of %s = %q, %v; want %s", pod, got, err, want)
		}
	}
}

// TestSharedOverManagement checks that without strict reservation the shared pool includes the management CPUs, and that exclusive
// CPUs never come from there.
func TestSharedOverManagement(t *testing.T) {
	n := newNode(t)
	n.StartDaemon(n.fixed(option("strict-cpu-reservation", "false")))
	n.apply(pod("neighbour", manifest.Container{Name: "app"}), pod("a", whole("app", 2)))
	n.shared = n.shared.Union(n.management)
	n.meets(expectations{"neighbour/app": {}, "a/app": {cpus: 2}})
}
