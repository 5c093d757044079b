//go:build guest

package placement_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// machine is the guest's topology with the pools of all tests. The first core is for management, the first core of the last NUMA node
// for the shared pool, and all others are for owners.
type machine struct {
	*topology.Topology
	management, shared, guaranteed cpuset.Set
	carves                         bool // exclusive CPUs come out of the shared pool, see carved
}

func readMachine(t *testing.T) machine {
	t.Helper()
	top, err := topology.Read(os.DirFS("/sys"))
	if err != nil {
		t.Fatal(err)
	}
	last := top.Nodes[len(top.Nodes)-1]
	m := machine{Topology: top, management: top.ThreadSiblings(0), shared: top.ThreadSiblings(last.CPUs.First())}
	m.guaranteed = top.Online.Difference(m.management).Difference(m.shared)
	return m
}

// fixed returns a configuration with those pools, and with lines of the section guaranteed, indented by two. A refused container runs in
// the shared pool, unless these lines set another action.
func (m machine) fixed(guaranteed string) string {
	return m.base() + fmt.Sprintf("shared:\n  cpus: %q\nguaranteed:\n  cpus: %q\n", m.shared, m.guaranteed) + refusal(guaranteed)
}

// carved is one in which exclusive CPUs come out of the shared pool, which has all but the management CPUs.
func (m machine) carved(floor int, guaranteed string) string {
	return m.base() + fmt.Sprintf("guaranteed:\n  from: shared\n  floor: %d\n", floor) + refusal(guaranteed)
}

// refusal adds the default action for refused containers to lines without one.
func refusal(guaranteed string) string {
	if strings.Contains(guaranteed, "onRefusal:") {
		return guaranteed
	}
	return "  onRefusal: shared\n" + guaranteed
}

// The resync is far away, so that it cannot do the events' work.
func (m machine) base() string {
	return fmt.Sprintf(`apiVersion: config.cpupoold.io/v1alpha1
kind: CPUPoolConfiguration
partitions:
- type: management
  cpus: %q
  namespaces: [kube-system]
resyncPeriod: 5m
logFormat: json
`, m.management)
}

func (m machine) smt() bool { return m.ThreadsPerCore() > 1 }

// cached reports whether a NUMA node has several last-level caches.
func (m machine) cached() bool { return len(m.L3s) > len(m.Nodes) }

// free are a node's CPUs of the guaranteed pool.
func (m machine) free(node int) cpuset.Set { return m.Nodes[node].CPUs.Intersection(m.guaranteed) }

// touched returns the number of groups of which a set has CPUs.
func touched(set cpuset.Set, groups []topology.Group) int {
	n := 0
	for _, g := range groups {
		if g.CPUs.Overlaps(set) {
			n++
		}
	}
	return n
}

// rule describes the expected CPUs of a container. The zero value expects the CPUs of the shared pool.
type rule struct {
	cpus   int  // exclusive CPUs
	whole  bool // physical cores only
	cores  int  // as many cores, 0: any number
	l3s    int  // likewise last-level caches
	nodes  int  // likewise NUMA nodes
	node   *int // the position of the only NUMA node
	evenly bool // as many CPUs of each node
	code   string
}

// exclusive reports whether the container has exclusive CPUs.
func (r rule) exclusive() bool { return r.cpus > 0 }

// check compares a set with a rule; shared is the expected set of the shared pool.
func (m machine) check(r rule, set, shared cpuset.Set) error {
	if !r.exclusive() {
		if !set.Equal(shared) {
			return fmt.Errorf("runs on %s; want the shared pool, %s", set, shared)
		}
		return nil
	}
	if set.Len() != r.cpus || set.Overlaps(m.management) {
		return fmt.Errorf("runs on %s; want %d CPUs off the management CPUs %s", set, r.cpus, m.management)
	}
	if r.whole {
		for cpu := range set.All() {
			if core := m.ThreadSiblings(cpu); !core.IsSubsetOf(set) {
				return fmt.Errorf("runs on %s, which has a part only of core %s", set, core)
			}
		}
	}
	var nodes []topology.Group
	for _, n := range m.Nodes {
		nodes = append(nodes, topology.Group{ID: n.ID, CPUs: n.CPUs})
		if part := n.CPUs.Intersection(set).Len(); r.evenly && part*len(m.Nodes) != set.Len() {
			return fmt.Errorf("runs on %s, with %d CPUs of node %d; want as many of each", set, part, n.ID)
		}
	}
	for _, count := range []struct {
		what      string
		want, got int
	}{
		{"cores", r.cores, touched(set, m.Cores)},
		{"last-level caches", r.l3s, touched(set, m.L3s)},
		{"NUMA nodes", r.nodes, touched(set, nodes)},
	} {
		if count.want != 0 && count.got != count.want {
			return fmt.Errorf("runs on %s: %d %s; want %d", set, count.got, count.what, count.want)
		}
	}
	if r.node != nil && !set.IsSubsetOf(m.Nodes[*r.node].CPUs) {
		return fmt.Errorf("runs on %s; want CPUs of node %d, %s", set, m.Nodes[*r.node].ID, m.Nodes[*r.node].CPUs)
	}
	return nil
}
