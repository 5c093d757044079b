//go:build guest

package daemon_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/testing/invariants"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// handover is the work for the next daemon: two owners share all CPUs of the pool between them.
type handover struct {
	name          string
	config        string
	first, second int // whole CPUs of each
	typ           cgroup.PartitionType

	done   bool // the daemon has lived: it has no more writes than it was given
	deaths int
}

// TestHandoverDeaths kills the daemon after each of its writes in turn, while two containers become partitions, exchange CPUs, and
// stop being partitions. No other container may run on an owner's CPUs then, and the next daemon must reach the desired state.
func TestHandoverDeaths(t *testing.T) {
	if !*partitionsToo {
		t.Skip("some minutes: TestKernels")
	}
	n := newNode(t)
	n.needsPartitions()
	r := n.withoutKubelet()
	n.notRestarted()
	n.startDaemon(hourly)
	n.nriConnected()
	p := pair{runtimeNode: r, first: r.mustStart(3000, "default", nil), second: r.mustStart(1000, "default", nil), shared: r.mustStart(500, "default", nil)}
	all := []*handover{
		{name: "begin", config: n.isolating(), first: 3, second: 1, typ: cgroup.RootPartition},
		{name: "first gives to second", config: n.isolating(), first: 1, second: 3, typ: cgroup.RootPartition},
		{name: "second gives to first", config: n.isolating(), first: 3, second: 1, typ: cgroup.RootPartition},
		{name: "end", config: hourly, first: 3, second: 1, typ: cgroup.MemberPartition},
	}
	p.settles(all[len(all)-1])
	for after, left := 1, len(all); left > 0; after++ {
		for _, h := range all {
			if h.done {
				p.begins(h)
			} else if h.done = !p.dies(h, after); h.done {
				left--
			} else {
				h.deaths++
				n.startDaemon(h.config)
				n.nriConnected()
			}
			p.settles(h)
		}
	}
	for _, h := range all {
		if t.Logf("%s: %d deaths", h.name, h.deaths); h.deaths < 4 {
			t.Errorf("%s: kills = %d; want at least 4", h.name, h.deaths)
		}
	}
}

// pair are two owners that have all CPUs of the pool between them, and a container in
// the shared pool.
type pair struct {
	*runtimeNode

	first, second, shared pod
}

// begins requests the new state from the running daemon, or from the next one.
func (p pair) begins(h *handover) {
	p.Helper()
	if now, err := os.ReadFile(configFile); err != nil || string(now) != h.config {
		p.write(configFile, h.config) // the daemon watches the file
	}
	gives, takes := owner{p.first, h.first}, owner{p.second, h.second}
	if h.first > h.second {
		gives, takes = takes, gives
	}
	for _, o := range []owner{gives, takes} {
		st, err := p.fs.Read(o.path)
		if err != nil {
			p.Fatal(err)
		}
		if st.CPUs.Len() == o.count {
			continue
		}
		// A daemon that dies refuses it; so does one that is not asked yet.
		if err := p.resize(o.pod, int64(o.count)*1000); err != nil {
			p.Logf("%s: resize of %s to %d CPUs: %v", h.name, o.name, o.count, err)
		}
	}
}

// owner is a container that requests so many whole CPUs.
type owner struct {
	pod
	count int
}

// settles waits until the node is in the requested state.
func (p pair) settles(h *handover) {
	p.Helper()
	p.every(time.Second, h.name, func() error {
		err := p.settled(h)
		if err != nil {
			p.begins(h)
		}
		return err
	})
}

func (p pair) settled(h *handover) error {
	return errors.Join(p.owns(h, p.first, h.first), p.owns(h, p.second, h.second), p.allowed(p.shared, "2-3"), p.nothingLost(h, p.first, p.second))
}

// dies has the daemon killed after so many writes, or returns false: it has not so many to make until all is settled.
func (p pair) dies(h *handover, after int) bool {
	p.Helper()
	death := p.diesAfter(after)
	p.begins(h)
	p.every(time.Second, fmt.Sprintf("%s: end after %d writes, or no more of them", h.name, after), func() error {
		if death.isDead() {
			return nil
		}
		err := p.settled(h)
		if err != nil {
			p.begins(h)
		}
		return err
	})
	writes, dead, err := death.end()
	if err != nil {
		p.Fatal(err)
	}
	if !dead {
		p.Logf("%s: all %d writes: %s", h.name, len(writes), strings.Join(writes, " "))
		return false
	}
	p.eventually("end of the daemon", func() error {
		if state, _ := p.try("systemctl", "is-active", "cpupoold"); strings.TrimSpace(state) != "failed" {
			return errors.New("its unit is " + state)
		}
		return nil
	})
	occupants, err := p.occupants(everybody)
	if err != nil {
		p.Fatal(err)
	}
	for _, err := range invariants.CheckOccupants(occupants) {
		p.Errorf("%s, killed after %s: %v\n%s", h.name, writes[len(writes)-1], err, p.dump())
	}
	return true
}

// owns checks that a container has that many CPUs of the pool, and the type of partition.
func (r *runtimeNode) owns(h *handover, p pod, count int) error {
	st, err := r.fs.Read(p.path)
	switch {
	case err != nil:
		return err
	case st.Effective.Len() != count || !st.Effective.IsSubsetOf(guaranteed()) || st.Quota != -1:
		return fmt.Errorf("%s has CPUs %s and a quota of %d; want %d CPUs and none", p.name, st.Effective, st.Quota, count)
	case h.typ == cgroup.MemberPartition && !st.Partition.Is(cgroup.MemberPartition):
		return fmt.Errorf("%s is %s", p.name, st.Partition)
	case h.typ == cgroup.MemberPartition:
		return r.allowed(p, st.Effective.String())
	}
	return r.parted(p, h.typ, st.Effective.String())
}

// nothingLost checks that the root has all CPUs outside of partitions, and that the exclusive lists contain the
// others.
func (r *runtimeNode) nothingLost(h *handover, owners ...pod) error {
	root, err := r.fs.Read("")
	if err != nil {
		return err
	}
	want, lists := cpuset.Range(0, 7), r.lists()
	if h.typ == cgroup.MemberPartition && len(lists) > 0 {
		return fmt.Errorf("exclusive lists are left: %v", lists)
	}
	if h.typ != cgroup.MemberPartition {
		want = want.Difference(guaranteed())
		for _, p := range owners {
			st, err := r.fs.Read(p.path)
			if err != nil {
				return err
			}
			if lists[p.path.Parent()] != st.Effective.String() {
				return fmt.Errorf("the lists are %v; %s has %s", lists, p.name, st.Effective)
			}
		}
	}
	if !root.Effective.Equal(want) {
		return fmt.Errorf("the root has CPUs %s; want %s", root.Effective, want)
	}
	return nil
}
