package daemon

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/restore"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// deathScene is a node on which a daemon dies, and which the next one puts right.
type deathScene struct {
	name string
	// before is the configuration of a daemon that has placed everything first; empty
	// if there was none. The one that dies has yaml.
	before, yaml string
	pool         cpuset.Set // what yaml lets be exclusive
	least        int        // writes that there must be for the scene to be worth it
	kernel       testnode.CgroupConfig
}

func deathScenes() []deathScene {
	fixed, carved := cpuset.Range(4, 7), cpuset.Range(2, 7)
	mems := strings.Replace(poolsYAML, "cpus: 4-7", "cpus: 4-7\n  memory: bind", 1)
	five, fiveYAML := cpuset.Range(3, 7), strings.NewReplacer("cpus: 2-3", "cpus: \"2\"", "cpus: 4-7", "cpus: 3-7").Replace(poolsYAML)
	seven := testnode.CgroupConfig{ClearPopulated: true}
	return []deathScene{
		{name: "fixed", yaml: poolsYAML, pool: fixed, least: 6},
		{name: "carved", yaml: carvedYAML, pool: carved, least: 6},
		{name: "carved from a full shared pool", before: strings.Replace(carvedYAML, "guaranteed:\n  from: shared\n  floor: 2\n", "", 1), yaml: carvedYAML, pool: carved, least: 6},
		{name: "fixed to carved", before: poolsYAML, yaml: carvedYAML, pool: carved, least: 3},
		{name: "carved to fixed", before: carvedYAML, yaml: poolsYAML, pool: fixed, least: 3},
		{name: "memory", yaml: mems, pool: fixed, least: 8},
		{name: "partitions", yaml: isolating(poolsYAML), pool: fixed, least: 12, kernel: kernelLike(6, 12)},
		{name: "carved partitions", yaml: isolating(carvedYAML), pool: carved, least: 12, kernel: kernelLike(6, 19)},
		{name: "fixed to carved partitions", before: isolating(poolsYAML), yaml: isolating(carvedYAML), pool: carved, least: 6, kernel: kernelLike(6, 18)},
		{name: "partitions to none", before: isolating(poolsYAML), yaml: poolsYAML, pool: fixed, least: 6, kernel: kernelLike(6, 12)},
		{name: "parking begins", before: isolating(fiveYAML), yaml: parkingYAML(fiveYAML, "partition"), pool: five, least: 8, kernel: kernelLike(6, 12)},
		{name: "parked CPUs change hands", before: parkingYAML(fiveYAML, "partition"), yaml: parkingYAML(fiveYAML, "partition"), pool: five, least: 8, kernel: kernelLike(6, 18)},
		{name: "parking ends", before: parkingYAML(poolsYAML, "partition"), yaml: poolsYAML, pool: fixed, least: 8, kernel: kernelLike(6, 12)},
		{name: "units", yaml: carvedYAML + unitsPart, pool: carved, least: 6},
		{name: "host services", yaml: carvedYAML + unitsPart + hostPart, pool: carved, least: 9},
		{name: "refused", yaml: failing(strings.Replace(poolsYAML, "4-7", "4-5", 1)), pool: cpuset.Range(4, 5), least: 6},
		{name: "carved partitions on 7.0", yaml: isolating(carvedYAML), pool: carved, least: 12, kernel: kernelLike(7, 0)},
		{name: "fixed on 7.0", yaml: poolsYAML, pool: fixed, least: 6, kernel: seven},
		{name: "fixed to carved on 7.0", before: poolsYAML, yaml: carvedYAML, pool: carved, least: 3, kernel: seven},
		{name: "host services on 7.0", yaml: carvedYAML + unitsPart + hostPart, pool: carved, least: 9, kernel: seven},
	}
}

// TestDeathAfterAnyWrite ends the daemon after each write in turn: at no moment
// do placed containers overlap, and the next daemon ends right, with exclusive
// containers where the first had put them.
func TestDeathAfterAnyWrite(t *testing.T) {
	for _, s := range deathScenes() {
		t.Run(s.name, func(t *testing.T) {
			total := s.play(t, -1)
			if total < s.least {
				t.Fatalf("the scene needs only %d writes", total)
			}
			for after := range total {
				t.Run(fmt.Sprint(after), func(t *testing.T) { s.play(t, after) })
			}
		})
	}
}

// crowd is who is on the node of a scene.
type crowd struct {
	*node
	shared    string
	exclusive map[string]int // asked CPUs, by container id
}

// populate fills the node: management, shared, two exclusive pods, one of which has
// CPUs reserved for a container that is still to come, and two units.
func populate(n *node) crowd {
	n.units.Install("du.service", cpuset.Set{})
	n.units.Install("telegraf.service", cpuset.Set{})
	n.start2("telegraf.service")
	n.hostServices()
	n.container(n.pod("m", "kube-system", "burstable", 0, management(map[string]int{"app": 512})), "app", cri.Resources{Shares: 102})
	c := crowd{node: n, exclusive: make(map[string]int)}
	c.shared = n.container(n.pod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	c.exclusive[n.container(n.pod("e1", "default", "guaranteed", 2, nil), "app", whole(2))] = 2
	c.exclusive[n.container(n.pod("e2", "default", "guaranteed", 2, nil), "app", whole(1))] = 1
	return c
}

// change is what happens while no daemon runs: an exclusive pod goes, another one
// comes.
func (c crowd) change() {
	c.t.Helper()
	for id, asked := range c.exclusive {
		if asked == 1 {
			delete(c.exclusive, id)
			if err := c.runtime.StopPod(c.podOf(id)); err != nil {
				c.t.Fatal(err)
			}
		}
	}
	c.exclusive[c.container(c.pod("e3", "default", "guaranteed", 1, nil), "app", whole(1))] = 1
}

// owned are the exclusive containers that have what they ask for, with CPUs that
// nobody else has who was placed, by the kernel's word.
func (c crowd) owned() map[string]cpuset.Set {
	all := make(map[string]cpuset.Set)
	for id, asked := range c.exclusive {
		claims := c.claims(cpuset.Set{})
		for i := range claims {
			claims[i].Exclusive = claims[i].Name == c.runtime.Cgroup(id)
		}
		if cpus := c.state(id).CPUs; cpus.Len() == asked && len(cpuset.CheckClaims(claims)) == 0 {
			all[id] = cpus
		}
	}
	return all
}

// everybody is where all processes run, those that nobody has placed yet too.
func (c crowd) everybody() map[cgroup.Path]cpuset.Set {
	all := make(map[cgroup.Path]cpuset.Set)
	fs := cgroup.New(c.tree)
	_ = fs.Walk("kubepods.slice", func(p cgroup.Path) error {
		if st, err := fs.Read(p); err == nil && st.Populated && strings.HasSuffix(string(p), ".scope") {
			all[p] = st.Effective
		}
		return nil
	})
	return all
}

// watch is what check compares with.
type watch struct {
	owned map[string]cpuset.Set
	all   map[cgroup.Path]cpuset.Set
}

// check says that nobody has come to the CPUs of somebody who owned them and still
// has them, and returns what there is now.
func (c crowd) check(before watch) watch {
	c.t.Helper()
	now := watch{c.owned(), c.everybody()}
	for id, cpus := range before.owned {
		if !c.state(id).CPUs.Equal(cpus) {
			continue
		}
		for p, runs := range now.all {
			if was, there := before.all[p]; string(p) != c.runtime.Cgroup(id) && there && runs.Difference(was).Overlaps(cpus) {
				c.t.Errorf("%s came to %s, which an exclusive container has\n%s", p, cpus, c.dump())
			}
		}
	}
	return now
}

// play returns how many files a daemon writes that lives.
func (s deathScene) play(t *testing.T, after int) int {
	n := newNodeOn(t, s.kernel)
	c := populate(n)
	if s.before != "" {
		n.yaml = s.before
		r := n.start()
		r.quiet()
		r.stop()
		c.change()
	}
	var mu sync.Mutex // seals of memory are writes of workers
	writes := 0
	dead := make(chan struct{})
	before := c.check(watch{})
	seen := before
	n.tree.Intercept(func(testnode.CgroupWrite) error {
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
	n.yaml = s.yaml
	r := n.start()
	// How many writes there are depends on when answers come: the last of a daemon
	// that lives may not be made this time.
	r.quietOr(func() bool {
		select {
		case <-dead:
			return true
		default:
			return false
		}
	})
	r.stop()
	n.tree.Intercept(nil)
	placed := c.check(seen)
	r = n.start()
	r.quiet()
	c.right(s.pool, placed.owned)
	c.right(s.pool, before.owned)
	if strings.Contains(s.yaml, hostPart) {
		c.hostRight(r)
	}
	if strings.Contains(s.yaml, "park: true") {
		c.eventually("parking of what nobody owns", func() bool {
			st, _ := c.parked()
			free := s.pool
			for _, a := range c.journal().Assignments {
				free = free.Difference(a.CPUs)
			}
			return st.Partition.Is(cgroup.IsolatedPartition) && st.Effective.Equal(free)
		})
	} else if _, there := c.parked(); there {
		t.Error("the cgroup of parked CPUs is left behind")
	}
	if n.tree.Crashed() || !n.tree.Leaked().IsEmpty() {
		t.Errorf("crashed: %t, leaked: %s", n.tree.Crashed(), n.tree.Leaked())
	}
	return writes
}

// hostRight says that the host's services are confined, and get back what they had
// before the first daemon came.
func (c crowd) hostRight(r *running) {
	c.t.Helper()
	du, err := cpuset.Parse("0-1," + c.property("du.service"))
	if err != nil {
		c.t.Fatal(err)
	}
	for p, want := range map[cgroup.Path]string{"init.scope": "0-1", "user.slice": "0-1", "system.slice": du.String(), "system.slice/sshd.service": du.String()} {
		if got := c.on(p); got != want {
			c.t.Errorf("%s is on %s, want %s", p, got, want)
		}
	}
	r.stop()
	h := c.host()
	if report, err := restore.HostRestore(&h, c.t.Context(), c.journal()); err != nil || slices.ContainsFunc(report.Differs, func(d undo.Difference) bool { return !d.Harmless }) {
		c.t.Errorf("restore: %+v, %v", report, err)
	}
	for unit, st := range c.hostState() {
		if !st.CPUs.IsEmpty() {
			c.t.Errorf("AllowedCPUs=%s of %s after restore", st.CPUs, unit)
		}
	}
}

// right says that all are where they should be, and those that had their CPUs still
// have them, where the pool still has these.
func (c crowd) right(pool cpuset.Set, placed map[string]cpuset.Set) {
	c.t.Helper()
	owned := c.owned()
	journal := make(map[string]bool)
	for _, a := range c.journal().Assignments {
		journal[a.CPUs.String()] = true
	}
	for id, asked := range c.exclusive {
		cpus := c.state(id).Effective
		if before := placed[id]; !before.IsEmpty() && before.IsSubsetOf(pool) && !before.Equal(cpus) {
			c.t.Errorf("an exclusive container was moved from %s to %s", before, cpus)
		}
		refused := c.state(c.shared).Effective.Equal(cpus)
		if _, own := owned[id]; own == refused || own && !journal[cpus.String()] {
			c.t.Errorf("a container that asks for %d CPUs of its own is on %s", asked, cpus)
		}
	}
}
