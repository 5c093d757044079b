package daemon

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cpupoold/cpupoold/internal/node/audit"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestOwnership checks that the running daemon and preview name the same owners of CPUs.
func TestOwnership(t *testing.T) {
	n := newHostNode(t, nodefixture.HostSlicesYAML)
	du := n.RunContainer(n.RunPod("g", "default", "guaranteed", 2, nil), "du", nodefixture.WholeCPUs(2))
	web := n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "web", cri.Resources{Shares: 512})
	r := n.start()
	n.AwaitCPUs(du, "4-5")
	n.AwaitCPUs(web, "2-3")
	r.quiet()
	var got audit.Ownership
	r.inspect(func(l *Loop) {
		got = l.settings.Ownership(l.last.Plan, l.inventory.Objects(), l.last.Hosts, l.last.Auxiliary)
	})
	places := make(map[string]string)
	for _, p := range got.Places {
		if !strings.HasPrefix(p.Cgroup, "kubepods") && p.Pod != "" {
			t.Errorf("%s/%s is in %q", p.Pod, p.Name, p.Cgroup)
		}
		text := p.Pool + " " + p.CPUs.String()
		if p.Exclusive {
			text += " alone"
		}
		places[p.Pod+" "+p.Name] = text
	}
	want := map[string]string{
		"default/g du": "guaranteed 4-5 alone", "default/s web": "shared 2-3", "default/g POD": "shared 2-3", "default/s POD": "shared 2-3",
		" init.scope": "management 0-1", " machine.slice": "management 0-1", " system.slice": "management 0-1", " user.slice": "management 0-1",
	}
	if d := cmp.Diff(want, places); d != "" {
		t.Errorf("places (-want +got):\n%s", d)
	}
	pool := func(name, typ string, cpus cpuset.Set) audit.Pool {
		return audit.Pool{PoolName: audit.PoolName{Pool: name, Type: typ}, CPUs: cpus}
	}
	pools := []audit.Pool{pool("guaranteed", "", cpuset.Range(4, 7)), pool("management", "management", cpuset.Range(0, 1)), pool("shared", "", cpuset.Range(2, 3))}
	if d := cmp.Diff(pools, got.Pools); d != "" {
		t.Errorf("pools (-want +got):\n%s", d)
	}
	byName := cmpopts.SortSlices(func(a, b audit.Place) bool { return a.Cgroup < b.Cgroup })
	if d := cmp.Diff(got, n.preview().Ownership, byName); d != "" {
		t.Errorf("without a daemon (-with +without):\n%s", d)
	}
}
