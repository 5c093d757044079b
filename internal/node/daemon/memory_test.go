package daemon

import (
	"slices"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// bindYAML returns PoolsYAML with other guaranteed CPUs and memory: bind.
func bindYAML(cpus string) string {
	return strings.Replace(nodefixture.PoolsYAML, "  cpus: 4-7", "  memory: bind\n  cpus: "+cpus, 1)
}

// anyYAML returns bindYAML without binding.
func anyYAML(cpus string) string { return strings.Replace(bindYAML(cpus), "bind", "any", 1) }

// TestMemoryFollows checks that memory is bound to the nodes of an owner's CPUs while the
// configuration requests it, and to the former nodes afterwards.
func TestMemoryFollows(t *testing.T) {
	bound := bindYAML("4-7")
	tests := []struct {
		name, before string
		yaml         string
		cpus, nodes  string
	}{
		{"not to be bound any more", "", anyYAML("4-7"), "4-5", "0-1"},
		{"not to be bound any more, had nodes", "0", anyYAML("4-7"), "4-5", "0"},
		{"no CPUs of its own any more", "", bindYAML("none"), "2-3", "0-1"},
		{"no CPUs of its own any more, had nodes", "0", bindYAML("none"), "2-3", "0"},
		{"other CPUs", "0", strings.Replace(bindYAML("2-3"), "shared:\n  cpus: 2-3", "shared:\n  cpus: 4-7", 1), "2-3", "0"},
		{"other CPUs, and not to be bound any more", "1", strings.Replace(anyYAML("2-3"), "shared:\n  cpus: 2-3", "shared:\n  cpus: 4-7", 1), "2-3", "1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			n.YAML = bound
			r := n.start()
			res := nodefixture.WholeCPUs(2)
			res.Mems = tt.before
			id := n.RunContainer(n.RunPod("e", "default", "guaranteed", 2, nil), "app", res)
			n.AwaitCPUs(id, "4-5")
			n.checkMemoryNodes(id, "1")
			r.quiet()
			n.YAML = tt.yaml
			r.loop.watchers.reload()
			n.AwaitCPUs(id, tt.cpus)
			n.checkMemoryNodes(id, tt.nodes)
			r.quiet()
			if got := n.recordedNodes(id); got != tt.nodes {
				t.Errorf("the runtime has nodes %s on record; want %s", got, tt.nodes)
			}

			n.YAML = bound // once more
			r.loop.watchers.reload()
			n.AwaitCPUs(id, "4-5")
			n.checkMemoryNodes(id, "1")
			r.quiet()
			r.stop()
			n.YAML = tt.yaml
			n.start().quiet()
			n.AwaitCPUs(id, tt.cpus)
			n.checkMemoryNodes(id, tt.nodes)
		})
	}
}

// TestUnitMemoryFollows checks that a configured unit without exclusive CPUs gets its former
// nodes, also if systemd starts it later.
func TestUnitMemoryFollows(t *testing.T) {
	const exclusive, shared = "units:\n  du.service: {cpus: 2}\n", "units:\n  du.service: {pool: shared}\n"
	n := newNode(t)
	n.YAML = bindYAML("4-7") + exclusive
	n.Units.Install("du.service", cpuset.Set{})
	n.StartUnit("du.service")
	r := n.start()
	n.AwaitUnitCPUs("du.service", "4-5")
	n.Eventually("memory of the unit bound", func() bool { return n.unitNodes("du.service") == "1" })
	r.quiet()
	n.YAML = bindYAML("4-7") + shared
	r.loop.watchers.reload()
	n.AwaitUnitCPUs("du.service", "2-3")
	n.Eventually("memory of the unit not bound", func() bool { return n.unitNodes("du.service") == "0-1" })
	r.quiet()
	if err := n.Units.Stop("du.service"); err != nil {
		t.Fatal(err)
	}
	n.StartUnit("du.service")
	if got := n.unitNodes("du.service"); got != "0-1" {
		t.Errorf("the unit has started with nodes %s; want 0-1", got)
	}
}

// TestMemoryThatNobodyBoundIsLeftAlone checks that the daemon changes no memory nodes without a
// request, also after an external write.
func TestMemoryThatNobodyBoundIsLeftAlone(t *testing.T) {
	n := newNode(t)
	n.YAML = bindYAML("4-7")
	r := n.start()
	id := n.RunContainer(n.RunPod("b", "default", "burstable", 2, nil), "app", cri.Resources{Shares: 102, Mems: "0"})
	n.AwaitCPUs(id, "2-3")
	r.quiet()
	n.YAML = anyYAML("4-7")
	r.loop.watchers.reload()
	r.quiet()
	if got := n.State(id).Mems.String(); got != "0" {
		t.Errorf("nodes %s; want 0 as before", got)
	}
	if writes := n.Tree.Writes(); slices.ContainsFunc(writes, func(w testnode.CgroupWrite) bool { return w.Name == n.Runtime.Cgroup(id)+"/"+cgroup.FileMems }) {
		t.Errorf("wrote %v", writes)
	}
}

func (n *node) checkMemoryNodes(id, nodes string) {
	n.T.Helper()
	n.Eventually("memory on nodes "+nodes, func() bool { return n.State(id).Mems.String() == nodes })
}

func (n *node) recordedNodes(id string) string {
	n.T.Helper()
	c, err := n.Client.ContainerStatus(n.T.Context(), id)
	if err != nil {
		n.T.Fatal(err)
	}
	nodes, err := c.RecordedMems()
	if err != nil {
		n.T.Fatal(err)
	}
	return nodes.String()
}

func (n *node) unitNodes(unit string) string {
	st, err := cgroup.New(n.Tree).Read(cgroup.Path("system.slice/" + unit))
	if err != nil {
		return ""
	}
	return st.Mems.String()
}
