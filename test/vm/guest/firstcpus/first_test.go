//go:build guest

package firstcpus_test

import (
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/cpupoold/cpupoold/internal/testing/invariants"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Numbers of containers that TestFirstInstruction starts.
var (
	oneByOne = flag.Int("starts", 30, "containers that TestFirstInstruction starts one after another")
	atOnce   = flag.Int("starts-at-once", 10, "containers that it starts at once")
)

// pools is a configuration for eight CPUs. The resync is far away, so that it cannot do the work of the runtime's messages.
const pools = `apiVersion: config.cpupoold.io/v1alpha1
kind: CPUPoolConfiguration
partitions:
- type: management
  cpus: 0-1
  namespaces: [kube-system]
shared:
  cpus: %s
guaranteed:
  %s
resyncPeriod: 5m
podResourcesSocket: none
logFormat: json
`

// course holds the counts of TestFirstInstruction with one configuration.
type course struct {
	*node

	started, outside map[string]int // by kind: shared, guaranteed
}

// TestFirstInstruction starts containers with a fixed list and with CPUs taken out of the shared pool. With NRI none of them ever runs
// outside its pool. Without it, all end inside.
func TestFirstInstruction(t *testing.T) {
	allowTime(t)
	for name, c := range map[string]struct {
		config string
		shared place // of one container at a time
		owners cpuset.Set
		crowd  place // of containers in the shared pool while others get exclusive CPUs
	}{
		"fixed": {
			fmt.Sprintf(pools, "2-3", "cpus: 4-7"),
			place{cpuset.Range(2, 3), 2}, cpuset.Range(4, 7), place{cpuset.Range(2, 3), 2},
		},
		"from-shared": {
			fmt.Sprintf(pools, "2-7", "from: shared\n  floor: 2"),
			place{cpuset.Range(2, 7), 6}, cpuset.Range(2, 7), place{cpuset.Range(2, 7), 0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := &course{newNode(t), make(map[string]int), make(map[string]int)}
			n.StartDaemon(c.config)
			n.connected()
			for i := range *oneByOne {
				kind, milli, where := "shared", int64(500), c.shared
				if i%2 == 1 {
					kind, milli, where = "guaranteed", 2000, place{c.owners, 2}
				}
				p, err := n.start(milli)
				if err != nil {
					t.Fatalf("%v\n%s", err, n.Evidence())
				}
				n.check(p, kind, where)
				n.inside(p, where)
				n.remove(p.id)
			}
			pods, errs := make([]pod, *atOnce), make([]error, *atOnce)
			owner := func(i int) bool { return i < 20 && i%5 == 1 } // four, and there are four CPUs for them
			var group sync.WaitGroup
			for i := range *atOnce {
				milli := int64(500)
				if owner(i) {
					milli = 1000
				}
				group.Go(func() { pods[i], errs[i] = n.start(milli) })
			}
			group.Wait()
			var occupants []invariants.Occupant
			for i, p := range pods {
				if errs[i] != nil {
					t.Fatalf("%v\n%s", errs[i], n.Evidence())
				}
				kind, where := "shared", c.crowd
				if owner(i) {
					kind, where = "guaranteed", place{c.owners, 1}
				}
				n.check(p, kind, where)
			}
			n.Settled()
			for i, p := range pods {
				where := c.crowd
				if owner(i) {
					where = place{c.owners, 1}
				}
				occupants = append(occupants, invariants.Occupant{Name: p.name, CPUs: n.inside(p, where), Exclusive: owner(i)})
			}
			for _, err := range invariants.CheckOccupants(occupants) {
				t.Errorf("%v\n%s", err, n.Evidence())
			}
			n.report()
		})
	}
}

// connected waits until the runtime sends creations to the daemon, if the runtime has NRI.
func (n *course) connected() {
	n.Helper()
	state := "absent"
	if n.Runtime.NRI {
		state = "ok"
	}
	want := fmt.Sprintf("cpupoold_source_state{source=\"nri\",state=%q} 1", state)
	n.Eventually("NRI "+state, func() error {
		got, err := n.metrics(`cpupoold_source_state{source="nri"`)
		if err == nil && !strings.Contains(got, want) {
			err = fmt.Errorf("no %s in %s", want, got)
		}
		return err
	})
}

// check compares the report of a container. With NRI, the process must have begun in its
// pool.
func (n *course) check(p pod, kind string, where place) {
	n.Helper()
	n.started[kind]++
	problem := where.outside(n.readReport(p), n.Runtime.NRI)
	if problem == "" {
		return
	}
	n.outside[kind]++
	if n.Runtime.NRI {
		n.Errorf("%s: %s\n%s", p.name, problem, n.Evidence())
		return
	}
	n.Logf("%s, %s: %s", p.name, kind, problem)
}

// inside waits until the kernel confirms that a container is in its pool, and returns its
// CPUs.
func (n *course) inside(p pod, where place) (cpus cpuset.Set) {
	n.Helper()
	n.Eventually("place of "+p.name, func() error {
		st, err := n.cgroup(p)
		if err != nil {
			return err
		}
		cpus = st.Effective
		if !cpus.IsSubsetOf(where.pool) || cpus.IsEmpty() || where.count != 0 && cpus.Len() != where.count {
			return fmt.Errorf("it runs on %s; want %s", cpus, where)
		}
		return nil
	})
	return cpus
}

// report logs the counts and the daemon's own measurement.
func (n *course) report() {
	n.Helper()
	for kind, count := range n.started {
		n.Logf("%s, NRI %v: %d of %d containers began outside", kind, n.Runtime.NRI, n.outside[kind], count)
	}
	n.agree()
}
