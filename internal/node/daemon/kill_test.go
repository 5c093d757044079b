package daemon

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/internal/testing/invariants"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/internal/testing/testnode/walk"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// deathCase is a node on which a daemon is killed, and on which the next daemon repairs
// everything.
type deathCase struct {
	name string
	// before is the configuration of an earlier daemon that has placed everything. It is empty
	// without an earlier daemon. The killed daemon has yaml.
	before, yaml string
	pool         cpuset.Set // CPUs that yaml allows to be exclusive
	least        int        // the minimum number of writes of the scene
	kernel       testnode.CgroupConfig
}

func deathScenes() []deathCase {
	fixed, carved := cpuset.Range(4, 7), cpuset.Range(2, 7)
	mems := strings.Replace(nodefixture.PoolsYAML, "cpus: 4-7", "cpus: 4-7\n  memory: bind", 1)
	five, fiveYAML := cpuset.Range(3, 7), strings.NewReplacer("cpus: 2-3", "cpus: \"2\"", "cpus: 4-7", "cpus: 3-7").Replace(nodefixture.PoolsYAML)
	seven := testnode.CgroupConfig{ClearPopulated: true}
	return []deathCase{
		{name: "fixed", yaml: nodefixture.PoolsYAML, pool: fixed, least: 6},
		{name: "carved", yaml: nodefixture.CarvedYAML, pool: carved, least: 6},
		{name: "carved from a full shared pool", before: strings.Replace(nodefixture.CarvedYAML, "guaranteed:\n  from: shared\n  floor: 2\n", "", 1), yaml: nodefixture.CarvedYAML, pool: carved, least: 6},
		{name: "fixed to carved", before: nodefixture.PoolsYAML, yaml: nodefixture.CarvedYAML, pool: carved, least: 3},
		{name: "carved to fixed", before: nodefixture.CarvedYAML, yaml: nodefixture.PoolsYAML, pool: fixed, least: 3},
		{name: "memory", yaml: mems, pool: fixed, least: 8},
		{name: "partitions", yaml: nodefixture.WithPartitions(nodefixture.PoolsYAML), pool: fixed, least: 12, kernel: nodefixture.KernelLike(6, 12)},
		{name: "carved partitions", yaml: nodefixture.WithPartitions(nodefixture.CarvedYAML), pool: carved, least: 12, kernel: nodefixture.KernelLike(6, 19)},
		{name: "fixed to carved partitions", before: nodefixture.WithPartitions(nodefixture.PoolsYAML), yaml: nodefixture.WithPartitions(nodefixture.CarvedYAML), pool: carved, least: 6, kernel: nodefixture.KernelLike(6, 18)},
		{name: "partitions to none", before: nodefixture.WithPartitions(nodefixture.PoolsYAML), yaml: nodefixture.PoolsYAML, pool: fixed, least: 6, kernel: nodefixture.KernelLike(6, 12)},
		{name: "parking begins", before: nodefixture.WithPartitions(fiveYAML), yaml: nodefixture.WithParking(fiveYAML, "partition"), pool: five, least: 8, kernel: nodefixture.KernelLike(6, 12)},
		{name: "parked CPUs change hands", before: nodefixture.WithParking(fiveYAML, "partition"), yaml: nodefixture.WithParking(fiveYAML, "partition"), pool: five, least: 8, kernel: nodefixture.KernelLike(6, 18)},
		{name: "parking ends", before: nodefixture.WithParking(nodefixture.PoolsYAML, "partition"), yaml: nodefixture.PoolsYAML, pool: fixed, least: 8, kernel: nodefixture.KernelLike(6, 12)},
		{name: "units", yaml: nodefixture.CarvedYAML + nodefixture.UnitsYAML, pool: carved, least: 6},
		{name: "host services", yaml: nodefixture.CarvedYAML + nodefixture.UnitsYAML + nodefixture.HostSlicesYAML, pool: carved, least: 9},
		{name: "refused", yaml: nodefixture.WithFailOnRefusal(strings.Replace(nodefixture.PoolsYAML, "4-7", "4-5", 1)), pool: cpuset.Range(4, 5), least: 6},
		{name: "carved partitions on 7.0", yaml: nodefixture.WithPartitions(nodefixture.CarvedYAML), pool: carved, least: 12, kernel: nodefixture.KernelLike(7, 0)},
		{name: "fixed on 7.0", yaml: nodefixture.PoolsYAML, pool: fixed, least: 6, kernel: seven},
		{name: "fixed to carved on 7.0", before: nodefixture.PoolsYAML, yaml: nodefixture.CarvedYAML, pool: carved, least: 3, kernel: seven},
		{name: "host services on 7.0", yaml: nodefixture.CarvedYAML + nodefixture.UnitsYAML + nodefixture.HostSlicesYAML, pool: carved, least: 9, kernel: seven},
	}
}

// TestDeathAfterAnyWrite kills the daemon after each write in turn. Placed containers never
// overlap, the next daemon reaches the desired state, and exclusive containers keep their CPUs.
func TestDeathAfterAnyWrite(t *testing.T) {
	for _, s := range deathScenes() {
		t.Run(s.name, func(t *testing.T) {
			total := s.run(t, -1)
			if total < s.least {
				t.Fatalf("the scene needs only %d writes", total)
			}
			for after := range total {
				t.Run(fmt.Sprint(after), func(t *testing.T) {
					t.Parallel()
					s.run(t, after)
				})
			}
		})
	}
}

// sceneNode are the containers and units on the node of a scene.
type sceneNode struct {
	*node
	shared    string
	exclusive map[string]int // requested CPUs, by container id
}

// populate fills the node: management, shared, two exclusive pods, of which one has CPUs
// reserved for a container that does not exist yet, and two units.
func populate(n *node) sceneNode {
	n.Units.Install("du.service", cpuset.Set{})
	n.Units.Install("telegraf.service", cpuset.Set{})
	n.StartUnit("telegraf.service")
	n.RunHostServices()
	n.RunContainer(n.RunPod("m", "kube-system", "burstable", 0, nodefixture.Management(map[string]int{"app": 512})), "app", cri.Resources{Shares: 102})
	c := sceneNode{node: n, exclusive: make(map[string]int)}
	c.shared = n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	c.exclusive[n.RunContainer(n.RunPod("e1", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))] = 2
	c.exclusive[n.RunContainer(n.RunPod("e2", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(1))] = 1
	return c
}

// change is what happens while no daemon runs: one exclusive pod ends and another starts.
func (c sceneNode) change() {
	c.T.Helper()
	for id, asked := range c.exclusive {
		if asked == 1 {
			delete(c.exclusive, id)
			if err := c.Runtime.StopPod(c.PodOf(id)); err != nil {
				c.T.Fatal(err)
			}
		}
	}
	c.exclusive[c.RunContainer(c.RunPod("e3", "default", "guaranteed", 1, nil), "app", nodefixture.WholeCPUs(1))] = 1
}

// owned returns the exclusive containers that have as many CPUs as they request and share them
// with no placed container, by the kernel's values.
func (c sceneNode) owned() map[string]cpuset.Set {
	all := make(map[string]cpuset.Set)
	for id, asked := range c.exclusive {
		occupants := c.Occupants(cpuset.Set{})
		for i := range occupants {
			occupants[i].Exclusive = occupants[i].Name == c.Runtime.Cgroup(id)
		}
		if cpus := c.State(id).CPUs; cpus.Len() == asked && len(invariants.CheckOccupants(occupants)) == 0 {
			all[id] = cpus
		}
	}
	return all
}

// allProcesses returns the CPUs of all cgroups with processes, also of those without a
// placement.
func (c sceneNode) allProcesses() map[cgroup.Path]cpuset.Set {
	all := make(map[cgroup.Path]cpuset.Set)
	fs := cgroup.New(c.Tree)
	_ = walk.Cgroups(fs, "kubepods.slice", func(p cgroup.Path) error {
		if st, err := fs.Read(p); err == nil && st.Populated && strings.HasSuffix(string(p), ".scope") {
			all[p] = st.Effective
		}
		return nil
	})
	return all
}

// watch holds the state that check compares with.
type watch struct {
	owned map[string]cpuset.Set
	all   map[cgroup.Path]cpuset.Set
}

// check checks that no other cgroup has come to the CPUs of an owner that still has them. It
// returns the present state.
func (c sceneNode) check(before watch) watch {
	c.T.Helper()
	now := watch{c.owned(), c.allProcesses()}
	for id, cpus := range before.owned {
		if !c.State(id).CPUs.Equal(cpus) {
			continue
		}
		for p, runs := range now.all {
			if was, there := before.all[p]; string(p) != c.Runtime.Cgroup(id) && there && runs.Difference(was).Overlaps(cpus) {
				c.T.Errorf("%s came to %s, which an exclusive container has\n%s", p, cpus, c.Dump())
			}
		}
	}
	return now
}

// run returns the number of files that a daemon writes which is not killed.
func (s deathCase) run(t *testing.T, after int) int {
	n := newNodeOn(t, s.kernel)
	c := populate(n)
	if s.before != "" {
		n.YAML = s.before
		r := n.start()
		r.quiet()
		r.stop()
		c.change()
	}
	var mu sync.Mutex // workers also write, to record memory nodes
	writes := 0
	dead := make(chan struct{})
	before := c.check(watch{})
	seen := before
	n.Tree.Intercept(func(testnode.CgroupWrite) error {
		mu.Lock()
		defer mu.Unlock()
		seen = c.check(seen)
		if writes == after {
			select {
			case <-dead:
			default:
				close(dead)
			}
			return errors.New("the daemon is dead")
		}
		writes++
		return nil
	})
	n.YAML = s.yaml
	r := n.start()
	// The number of writes depends on the order of answers: the last write of a complete run
	// may not be made this time.
	r.quietOr(func() bool {
		select {
		case <-dead:
			return true
		default:
			return false
		}
	})
	r.stop()
	n.Tree.Intercept(nil)
	placed := c.check(seen)
	r = n.start()
	r.quiet()
	c.checkPlacement(s.pool, placed.owned)
	c.checkPlacement(s.pool, before.owned)
	if strings.Contains(s.yaml, nodefixture.HostSlicesYAML) {
		c.checkHostServices(r)
	}
	if strings.Contains(s.yaml, "park: true") {
		c.Eventually("parking of what nobody owns", func() bool {
			st, _ := c.Parked()
			free := s.pool
			for _, a := range c.Journal().Assignments {
				free = free.Difference(a.CPUs)
			}
			return st.Partition.Is(cgroup.IsolatedPartition) && st.Effective.Equal(free)
		})
	} else if _, there := c.Parked(); there {
		t.Error("the cgroup of parked CPUs is left behind")
	}
	if n.Tree.Crashed() || !n.Tree.Leaked().IsEmpty() {
		t.Errorf("crashed: %t, leaked: %s", n.Tree.Crashed(), n.Tree.Leaked())
	}
	return writes
}

// checkHostServices checks that host services are confined, and that restore resets what they had
// before the first daemon.
func (c sceneNode) checkHostServices(r *running) {
	c.T.Helper()
	du, err := cpuset.Parse("0-1," + c.UnitProperty("du.service"))
	if err != nil {
		c.T.Fatal(err)
	}
	for p, want := range map[cgroup.Path]string{"init.scope": "0-1", "user.slice": "0-1", "system.slice": du.String(), "system.slice/sshd.service": du.String()} {
		if got := c.CPUsOf(p); got != want {
			c.T.Errorf("%s is on %s, want %s", p, got, want)
		}
	}
	r.stop()
	if report, err := c.restore(); err != nil || slices.ContainsFunc(report.Differs, func(d undo.Difference) bool { return !d.Harmless }) {
		c.T.Errorf("restore: %+v, %v", report, err)
	}
	for unit, st := range c.HostUnits() {
		if !st.CPUs.IsEmpty() {
			c.T.Errorf("AllowedCPUs=%s of %s after restore", st.CPUs, unit)
		}
	}
}

// checkPlacement checks that all containers are in their pools, and that owners have kept their CPUs
// that are still in the pool.
func (c sceneNode) checkPlacement(pool cpuset.Set, placed map[string]cpuset.Set) {
	c.T.Helper()
	owned := c.owned()
	journal := make(map[string]bool)
	for _, a := range c.Journal().Assignments {
		journal[a.CPUs.String()] = true
	}
	for id, asked := range c.exclusive {
		cpus := c.State(id).Effective
		if before := placed[id]; !before.IsEmpty() && before.IsSubsetOf(pool) && !before.Equal(cpus) {
			c.T.Errorf("an exclusive container was moved from %s to %s", before, cpus)
		}
		refused := c.State(c.shared).Effective.Equal(cpus)
		if _, own := owned[id]; own == refused || own && !journal[cpus.String()] {
			c.T.Errorf("a container that asks for %d CPUs of its own is on %s", asked, cpus)
		}
	}
}
