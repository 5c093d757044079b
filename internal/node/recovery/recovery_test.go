package recovery_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/internal/node/recovery"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/systemd"
)

// fixedPools returns pools with a list of guaranteed CPUs.
func fixedPools() pools.Pools {
	return pools.Pools{Shared: cpuset.Range(2, 3), Guaranteed: cpuset.Range(4, 7)}
}

// carvedPools returns pools with guaranteed.from: shared.
func carvedPools() pools.Pools {
	return pools.Pools{Shared: cpuset.Range(2, 7), Guaranteed: cpuset.Range(2, 7), FromShared: true}
}

// TestSources checks the order of the sources: the kernel, the record, the journal.
func TestSources(t *testing.T) {
	m := inventory.New(cgroup.DriverSystemd)
	slice := "kubepods-podu.slice"
	m.PutPod(lookup.PodStatus{Pod: cri.Pod{ID: "p", UID: "u", Ready: true, CgroupParent: slice, CgroupsPath: slice + ":cri-containerd:p"}})
	kernel := make(map[cgroup.Path]string)
	put := func(id, name string, state cri.State, inKernel, recorded string) {
		m.PutContainer(lookup.ContainerStatus{Container: cri.Container{ID: id, PodID: "p", Name: name, State: state,
			CgroupsPath: slice + ":cri-containerd:" + id, Recorded: cri.Resources{CPUs: recorded}}})
		if inKernel != "" {
			kernel[m.Objects().Container(id).Path] = inKernel
		}
	}
	put("c1", "drifted", cri.Running, "4-5", "6-7")
	put("c2", "starting", cri.Created, "", "6")
	put("c3", "shared", cri.Running, "2-3", "2-3")
	put("c4", "wide", cri.Running, "0-7", "")
	put("c5", "again", cri.Exited, "", "7")
	put("c6", "again", cri.Running, "8", "7")
	put("c7", "ended", cri.Exited, "", "10") // its CPUs may have another owner now
	// The pod of this container is stopped.
	m.PutPod(lookup.PodStatus{Pod: cri.Pod{ID: "q", UID: "v", CgroupParent: "kubepods-podv.slice"}})
	m.PutContainer(lookup.ContainerStatus{Container: cri.Container{ID: "c8", PodID: "q", Name: "stillborn", State: cri.Created, Recorded: cri.Resources{CPUs: "9"}}})
	read := func(p cgroup.Path) (cgroup.State, error) {
		cpus, ok := kernel[p]
		if !ok {
			return cgroup.State{}, cgroup.ErrGone
		}
		set, err := cpuset.Parse(cpus)
		return cgroup.State{Path: p, CPUs: set}, err
	}
	journal := []pools.Assignment{
		{Key: pools.Key{PodUID: "u", Container: "drifted"}, CPUs: cpuset.Of(11)},
		{Key: pools.Key{PodUID: "u", Container: "resting"}, CPUs: cpuset.Of(9)},
	}
	got := make(map[string]string)
	for _, a := range recovery.Assignments(m.Objects(), read, journal, nil, &desired.Settings{Pools: pools.Pools{Guaranteed: cpuset.Range(4, 11)}}) {
		got[a.Container] += a.CPUs.String()
	}
	want := map[string]string{"drifted": "4-5", "starting": "6", "again": "8", "resting": "9"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("assignments (-want +got):\n%s", d)
	}
}

// TestEarlierInstance checks that the record of an exited instance does not count while another instance
// of the container runs in the shared pool. Without a running instance, it counts if the journal is lost.
func TestEarlierInstance(t *testing.T) {
	for _, tc := range []struct {
		state cri.State
		want  string
	}{{cri.Running, ""}, {cri.Exited, "4-5"}} {
		m := inventory.New(cgroup.DriverSystemd)
		slice := "kubepods-podu.slice"
		m.PutPod(lookup.PodStatus{Pod: cri.Pod{ID: "p", UID: "u", Ready: true, CgroupParent: slice, CgroupsPath: slice + ":cri-containerd:p"}})
		for i, c := range []cri.Container{
			{ID: "c1", State: cri.Exited, Recorded: cri.Resources{CPUs: "4-5"}},
			{ID: "c2", State: tc.state, Recorded: cri.Resources{CPUs: "2-3"}},
		} {
			c.PodID, c.Name, c.CgroupsPath, c.CreatedAt = "p", "app", slice+":cri-containerd:"+c.ID, time.Unix(int64(i), 0)
			m.PutContainer(lookup.ContainerStatus{Container: c})
		}
		read := func(p cgroup.Path) (cgroup.State, error) {
			if p == m.Objects().Container("c2").Path && tc.state == cri.Running {
				return cgroup.State{Path: p, CPUs: cpuset.Range(2, 3)}, nil
			}
			return cgroup.State{}, cgroup.ErrGone
		}
		got := ""
		for _, a := range recovery.Assignments(m.Objects(), read, nil, nil, &desired.Settings{Pools: fixedPools()}) {
			got += a.CPUs.String()
		}
		if got != tc.want {
			t.Errorf("the newest instance is in state %v: the container keeps %q; want %q", tc.state, got, tc.want)
		}
	}
}

// TestPartition checks that a partition is exclusive where the other facts do not decide: with pause
// containers elsewhere, no known shared container, and fewer CPUs left than the pool's floor.
func TestPartition(t *testing.T) {
	m := inventory.New(cgroup.DriverSystemd)
	slice := "kubepods-podu.slice"
	m.PutPod(lookup.PodStatus{Pod: cri.Pod{ID: "p", UID: "u", Ready: true, CgroupParent: slice, CgroupsPath: slice + ":cri-containerd:p"}})
	for _, id := range []string{"parted", "not"} {
		m.PutContainer(lookup.ContainerStatus{Container: cri.Container{ID: id, PodID: "p", Name: id, State: cri.Running, CgroupsPath: slice + ":cri-containerd:" + id, Requested: nodefixture.WholeCPUs(2)}})
	}
	reads := make(map[cgroup.Path]int)
	read := func(p cgroup.Path) (cgroup.State, error) {
		reads[p]++
		switch p {
		case m.Objects().Container("parted").Path:
			return cgroup.State{Path: p, CPUs: cpuset.Of(4, 5), Partition: cgroup.PartitionState{Type: cgroup.RootPartition}}, nil
		case m.Objects().Container("not").Path:
			return cgroup.State{Path: p, CPUs: cpuset.Of(6, 7)}, nil
		}
		return cgroup.State{}, cgroup.ErrGone
	}
	of := pools.Pools{FromShared: true, Floor: 3, Infra: "management", Shared: cpuset.Range(2, 7), Guaranteed: cpuset.Range(2, 7)}
	got := recovery.Assignments(m.Objects(), read, nil, nil, &desired.Settings{Pools: of})
	want := []pools.Assignment{{Key: pools.Key{PodUID: "u", Container: "parted"}, CPUs: cpuset.Of(4, 5)}}
	if d := cmp.Diff(want, got, cmp.Comparer(cpuset.Set.Equal)); d != "" {
		t.Errorf("assignments (-want +got):\n%s", d)
	}
	if len(reads) != 3 {
		t.Errorf("%d cgroups read; want the containers and their pause container", len(reads))
	}
	for p, n := range reads {
		if n != 1 {
			t.Errorf("%s was read %d times; want once", p, n)
		}
	}
}

// TestCreatedContainer checks that the record of a container without a process shows the CPUs of
// the shared pool. No cgroup has its CPUs yet, so they do not count as the CPUs of another owner.
func TestCreatedContainer(t *testing.T) {
	const name, slice = "du.service", "kubepods-burstable-podu.slice"
	of := pools.Pools{FromShared: true, Floor: 2, Infra: "management", Shared: cpuset.Range(1, 6), Guaranteed: cpuset.Range(1, 6), Units: []pools.UnitSpec{{Name: name, CPUs: 2}}}
	read := func(p cgroup.Path) (cgroup.State, error) {
		if p == "system.slice/"+name {
			return cgroup.State{Path: p, CPUs: cpuset.Range(4, 5)}, nil
		}
		return cgroup.State{}, cgroup.ErrGone
	}
	for recorded, want := range map[string]string{"": "4-5", "1-3,6": "4-5", "1-6": ""} {
		m := inventory.New(cgroup.DriverSystemd)
		m.PutPod(lookup.PodStatus{Pod: cri.Pod{ID: "p", UID: "u", Ready: true, CgroupParent: slice, CgroupsPath: slice + ":cri-containerd:p"}})
		m.PutContainer(lookup.ContainerStatus{Container: cri.Container{ID: "c", PodID: "p", Name: "app", State: cri.Created, CgroupsPath: slice + ":cri-containerd:c",
			Recorded: cri.Resources{CPUs: recorded}, Requested: cri.Resources{Shares: 102}}})
		m.PutUnit(lookup.UnitStatus{Name: name, Unit: systemd.Unit{Name: name, Path: "system.slice/" + name}})
		got := ""
		for _, a := range recovery.Assignments(m.Objects(), read, nil, nil, &desired.Settings{Pools: of}) {
			got += a.CPUs.String()
		}
		if got != want {
			t.Errorf("with %q recorded for a shared container, %s keeps %q; want %q", recorded, name, got, want)
		}
	}
}

// TestReservedCPUs checks that CPUs reserved for pods do not count as CPUs of the shared pool, although
// no cgroup has them. Otherwise a refused unit would keep CPUs of the shared pool as its own, at the
// start or when systemd describes it later.
func TestReservedCPUs(t *testing.T) {
	const name = "du.service"
	of := pools.Pools{FromShared: true, Floor: 2, Infra: "management", Shared: cpuset.Range(1, 7), Guaranteed: cpuset.Range(1, 7), Units: []pools.UnitSpec{{Name: name, CPUs: 2}}}
	read := func(p cgroup.Path) (cgroup.State, error) { return cgroup.State{Path: p, CPUs: cpuset.Range(1, 2)}, nil }
	for _, tc := range []struct {
		name                 string
		reserved, away, want string
	}{
		{name: "no reservation", want: "1-2"},
		{name: "some, and enough is left", reserved: "3-5", want: "1-2"},
		{name: "all but one", reserved: "3-6"},
		{name: "all but one, one of them offline", reserved: "3-5", away: "6"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			held := []pools.Assignment{{Key: pools.Key{PodUID: "u"}, CPUs: parsed(t, tc.reserved), Away: parsed(t, tc.away)}}
			for when, recovered := range map[string]func(*inventory.Inventory) []pools.Assignment{
				"start": func(m *inventory.Inventory) []pools.Assignment {
					return recovery.Assignments(m.Objects(), read, held, nil, &desired.Settings{Pools: of})
				},
				"later": func(m *inventory.Inventory) []pools.Assignment {
					return recovery.Late(m.Objects(), m.TakeUnrecovered(), read, held, nil, &desired.Settings{Pools: of})
				},
			} {
				m := inventory.New(cgroup.DriverSystemd)
				m.PutUnit(lookup.UnitStatus{Name: name, Unit: systemd.Unit{Name: name, Path: "system.slice/" + name}})
				var got string
				for _, a := range recovered(m) {
					if a.Container == name {
						got = a.CPUs.String()
					}
				}
				if got != tc.want {
					t.Errorf("%s: %s keeps %q; want %q", when, name, got, tc.want)
				}
			}
		})
	}
}

// TestRefusedContainers checks the facts by which a refused container shows the shared set, where pause
// containers run elsewhere: its size, its quota, or an overlap with another set. Then a unit keeps its
// CPUs without a journal. The size shows nothing if the configuration grants shared CPUs in addition.
func TestRefusedContainers(t *testing.T) {
	const name = "du.service"
	of := pools.Pools{FromShared: true, Floor: 2, Infra: "management", Shared: cpuset.Range(1, 5), Guaranteed: cpuset.Range(1, 5), Units: []pools.UnitSpec{{Name: name, CPUs: 2}}}
	mixed := map[string]string{"cpu-shared.crio.io/c0": "enable"}
	type refused struct {
		requests         int
		kernel           string
		recorded         string // of a container that is not started
		quota, partition bool
	}
	for _, tc := range []struct {
		name        string
		others      []refused
		annotations map[string]string
		mixed       string // namespace for which the configuration grants shared CPUs in addition
		held        string // by the first container
		want        string
	}{
		{name: "as requested", others: []refused{{requests: 3, kernel: "3-5"}}},
		{name: "larger", others: []refused{{requests: 1, kernel: "3-5"}}, want: "1-2"},
		{name: "larger, and not started yet", others: []refused{{requests: 1, recorded: "3-5"}}, want: "1-2"},
		{name: "larger, but a partition", others: []refused{{requests: 1, kernel: "3-5", partition: true}}},
		{name: "larger, but in the journal", others: []refused{{requests: 1, kernel: "3-5"}}, held: "3"},
		{name: "larger, and outside of the pool", others: []refused{{requests: 1, kernel: "6-7"}, {requests: 3, kernel: "3-5"}}},
		{name: "two in the same set", others: []refused{{requests: 3, kernel: "3-5"}, {requests: 3, kernel: "3-5"}}, want: "1-2"},
		{name: "two sets", others: []refused{{requests: 2, kernel: "3-4"}, {requests: 1, kernel: "5"}}},
		{name: "with a quota", others: []refused{{requests: 3, kernel: "3-5", quota: true}}, want: "1-2"},
		{name: "fewer, with a quota", others: []refused{{requests: 4, kernel: "3-5", quota: true}}, want: "1-2"},
		{name: "larger, and requests shared CPUs that no container gets", others: []refused{{requests: 1, recorded: "3-5"}}, annotations: mixed, want: "1-2"},
		{name: "larger, and requests shared CPUs that its namespace does not get", others: []refused{{requests: 1, recorded: "3-5"}}, annotations: mixed, mixed: "other", want: "1-2"},
		{name: "larger, and may have shared CPUs in addition", others: []refused{{requests: 1, recorded: "3-5"}}, annotations: mixed, mixed: "default"},
		{name: "larger, and did not request the shared CPUs", others: []refused{{requests: 1, recorded: "3-5"}}, mixed: "default", want: "1-2"},
		{name: "with a quota to keep", others: []refused{{requests: 3, kernel: "3-5", quota: true}}, annotations: map[string]string{"cpu-quota.crio.io": "enable"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := inventory.New(cgroup.DriverSystemd)
			slice := "kubepods-podu.slice"
			m.PutPod(lookup.PodStatus{Pod: cri.Pod{ID: "p", UID: "u", Namespace: "default", Ready: true, CgroupParent: slice, CgroupsPath: slice + ":cri-containerd:p", Annotations: tc.annotations}})
			unit := systemd.Unit{Name: name, Path: "system.slice/" + name}
			m.PutUnit(lookup.UnitStatus{Name: name, Unit: unit})
			states := map[cgroup.Path]cgroup.State{unit.Path: {CPUs: cpuset.Range(1, 2)}}
			for i, o := range tc.others {
				id := fmt.Sprint("c", i)
				c := cri.Container{ID: id, PodID: "p", Name: id, State: cri.Running, CgroupsPath: slice + ":cri-containerd:" + id, Requested: nodefixture.WholeCPUs(o.requests), Recorded: cri.Resources{CPUs: o.recorded}}
				if o.kernel == "" {
					c.State = cri.Created
				}
				m.PutContainer(lookup.ContainerStatus{Container: c})
				st := cgroup.State{CPUs: parsed(t, o.kernel), Quota: -1}
				if o.quota {
					st.Quota = c.Requested.Quota
				}
				if o.partition {
					st.Partition.Type = cgroup.RootPartition
				}
				states[m.Objects().Container(id).Path] = st
			}
			var journal []pools.Assignment
			if tc.held != "" {
				journal = append(journal, pools.Assignment{Key: pools.Key{PodUID: "u", Container: "c0"}, CPUs: parsed(t, tc.held)})
			}
			read := func(p cgroup.Path) (cgroup.State, error) { return states[p], nil }
			of := of
			if tc.mixed != "" {
				of.Mixed = pools.Mixed{Shared: true, Namespaces: []string{tc.mixed}}
			}
			var got string
			for _, a := range recovery.Assignments(m.Objects(), read, journal, nil, &desired.Settings{Pools: of}) {
				switch {
				case a.PodUID == "":
					got = a.CPUs.String()
				case tc.want != "":
					t.Errorf("%s owns %s", a.Container, a.CPUs)
				}
			}
			if got != tc.want {
				t.Errorf("%s keeps %q; want %q", name, got, tc.want)
			}
		})
	}
}

func parsed(t *testing.T, list string) cpuset.Set {
	t.Helper()
	set, err := cpuset.Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// TestLate checks that a container keeps its CPUs if its description failed at the start, unless
// they have another owner when it succeeds.
func TestLate(t *testing.T) {
	for name, p := range map[string]pools.Pools{"fixed": fixedPools(), "from shared": carvedPools()} {
		t.Run(name, func(t *testing.T) {
			slice := "kubepods-podu.slice"
			c := cri.Container{ID: "c", PodID: "p", Name: "app", State: cri.Running, CgroupsPath: slice + ":cri-containerd:c", Requested: nodefixture.WholeCPUs(2)}
			late := func() *inventory.Inventory {
				m := inventory.New(cgroup.DriverSystemd)
				m.PutPod(lookup.PodStatus{Pod: cri.Pod{ID: "p", UID: "u", Ready: true, CgroupParent: slice, CgroupsPath: slice + ":cri-containerd:p"}})
				m.PutContainer(lookup.ContainerStatus{Container: c, Partial: os.ErrDeadlineExceeded})
				m.BeginWatch(time.Now())
				m.PutContainer(lookup.ContainerStatus{Container: c})
				return m
			}
			m := late()
			read := func(p cgroup.Path) (cgroup.State, error) {
				st := cgroup.State{Path: p, CPUs: cpuset.Range(2, 3)}
				if p == m.Objects().Container("c").Path {
					st.CPUs = cpuset.Range(6, 7)
				}
				return st, nil
			}
			s := desired.Settings{Pools: p}
			other := pools.Assignment{Key: pools.Key{PodUID: "x", Container: "app"}, CPUs: cpuset.Of(4)}
			got := recovery.Late(m.Objects(), m.TakeUnrecovered(), read, []pools.Assignment{other}, nil, &s)
			if len(got) != 2 || got[1].Key != (pools.Key{PodUID: "u", Container: "app"}) || got[1].CPUs.String() != "6-7" {
				t.Errorf("assignments = %v; want 6-7 for u/app", got)
			}
			m, other.CPUs = late(), cpuset.Of(6)
			if got := recovery.Late(m.Objects(), m.TakeUnrecovered(), read, []pools.Assignment{other}, nil, &s); len(got) != 1 {
				t.Errorf("assignments = %v; want CPU 6 with its owner only", got)
			}
		})
	}
}

// TestRules checks the rules that distinguish exclusive CPUs from shared ones.
func TestRules(t *testing.T) {
	slice := "kubepods-podu.slice"
	for _, tc := range []struct {
		name                    string
		fixed                   bool
		requests                int
		kernel, recorded, other string
		journal, want           string
		mixed, infra            bool
		besteffort              string // CPUs of a container in the shared pool
	}{
		{name: "alone and of the right size", requests: 2, kernel: "4-5", other: "2-3,6-7", want: "4-5"},
		{name: "the shared set, of the same size", requests: 2, kernel: "2-3", other: "2-3"},
		{name: "the shared set, of another size", requests: 2, kernel: "2-4", other: "2-4"},
		{name: "alone, but larger", requests: 1, kernel: "4-5", other: "2-3"},
		{name: "alone, and smaller", requests: 3, kernel: "4-5", other: "2-3", want: "4-5"},
		{name: "alone and smaller, but no shared container", requests: 3, kernel: "4-5"},
		{name: "alone, of another size, and fixed", fixed: true, requests: 1, kernel: "4-5", other: "2-3", want: "4-5"},
		{name: "the journal agrees", requests: 1, kernel: "4-5", other: "4-7", journal: "4-5", want: "4-5"},
		{name: "the journal knows more", requests: 2, kernel: "4", other: "2-3", journal: "4-5", want: "4-5"},
		{name: "the kernel precedes the journal", requests: 2, kernel: "4-5", other: "2-3", journal: "6-7", want: "4-5"},
		{name: "no cgroup", requests: 2, kernel: "", recorded: "6-7", other: "2-3", want: "6-7"},
		{name: "the kernel has all CPUs", requests: 2, kernel: "0-7", recorded: "6-7", other: "2-3", want: "6-7"},
		{name: "only the journal", requests: 2, journal: "6-7", other: "2-3", want: "6-7"},
		{name: "outside of the pool", requests: 2, kernel: "0-1", other: "2-3"},
		{name: "mixed", mixed: true, requests: 2, kernel: "2-5", other: "2-3", want: "4-5"},
		{name: "mixed, and the journal agrees", mixed: true, requests: 2, kernel: "2-5", other: "2-3", journal: "4-5", want: "4-5"},
		{name: "mixed, and the others are not updated", mixed: true, requests: 2, kernel: "2-5,7", other: "2-3", journal: "4-5", want: "4-5"},
		{name: "mixed, the others not updated, no journal", mixed: true, requests: 2, kernel: "2-5,7", other: "2-3"},
		{name: "mixed, and in the shared pool", mixed: true, requests: 2, kernel: "2-4", other: "2-4"},
		{name: "mixed, in the shared pool with an old journal", mixed: true, requests: 2, kernel: "2-4", other: "2-4", journal: "2-3", want: "2-3"},
		{name: "mixed, recorded alone", mixed: true, requests: 2, recorded: "2-3,6-7", other: "2-3", want: "6-7"},
		{name: "mixed, exclusive part alone", mixed: true, requests: 2, kernel: "6-7", other: "2-3", want: "6-7"},
		{name: "mixed and fixed", mixed: true, fixed: true, requests: 2, kernel: "1-3,4-5", other: "2-3", want: "4-5"},
		{name: "mixed, no shared container and no journal", mixed: true, requests: 2, kernel: "2-5"},
		{name: "mixed, no shared container", mixed: true, requests: 2, kernel: "2-5", journal: "2-3", want: "2-3"},
		{name: "not mixed", requests: 2, kernel: "2-5", other: "2-3"},
		{name: "pause containers elsewhere", infra: true, requests: 2, kernel: "4-5", other: "0-1", want: "4-5"},
		{name: "pause containers elsewhere, and no CPU is left in the pool", infra: true, requests: 6, kernel: "2-7", other: "0-1"},
		{name: "pause containers elsewhere, and recorded alone", infra: true, requests: 2, recorded: "4-5", other: "0-1"},
		{name: "pause containers elsewhere, and a shared container", infra: true, requests: 2, kernel: "4-5", other: "0-1", besteffort: "2-3", want: "4-5"},
		{name: "pause containers elsewhere, and smaller", infra: true, requests: 3, kernel: "4-5", other: "0-1", want: "4-5"},
		{name: "pause containers elsewhere, and a journal", infra: true, requests: 2, kernel: "4-5", other: "0-1", journal: "4-5", want: "4-5"},
		{name: "pause containers elsewhere, mixed", infra: true, mixed: true, requests: 2, kernel: "2-5", other: "0-1", besteffort: "2-3", want: "4-5"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := inventory.New(cgroup.DriverSystemd)
			pod := cri.Pod{ID: "p", UID: "u", Ready: true, CgroupParent: slice, CgroupsPath: slice + ":cri-containerd:p"}
			if tc.mixed {
				pod.Annotations = map[string]string{"cpu-shared.crio.io/app": "enable"}
			}
			m.PutPod(lookup.PodStatus{Pod: pod})
			if tc.besteffort != "" {
				m.PutPod(lookup.PodStatus{Pod: cri.Pod{ID: "q", UID: "v", Ready: true, CgroupParent: "kubepods-besteffort-podv.slice", CgroupsPath: "kubepods-besteffort-podv.slice:cri-containerd:q"}})
				m.PutContainer(lookup.ContainerStatus{Container: cri.Container{ID: "d", PodID: "q", Name: "app", State: cri.Running,
					CgroupsPath: "kubepods-besteffort-podv.slice:cri-containerd:d", Requested: cri.Resources{Shares: 2}}})
			}
			m.PutContainer(lookup.ContainerStatus{Container: cri.Container{ID: "c", PodID: "p", Name: "app", State: cri.Running,
				CgroupsPath: slice + ":cri-containerd:c", Requested: nodefixture.WholeCPUs(tc.requests), Recorded: cri.Resources{CPUs: tc.recorded}}})
			read := func(p cgroup.Path) (cgroup.State, error) {
				text := tc.other
				switch {
				case p == m.Objects().Container("c").Path:
					text = tc.kernel
				case tc.besteffort != "" && p == m.Objects().Container("d").Path:
					text = tc.besteffort
				}
				cpus, err := cpuset.Parse(text)
				return cgroup.State{Path: p, CPUs: cpus}, err
			}
			var journal []pools.Assignment
			if tc.journal != "" {
				cpus, err := cpuset.Parse(tc.journal)
				if err != nil {
					t.Fatal(err)
				}
				journal = append(journal, pools.Assignment{Key: pools.Key{PodUID: "u", Container: "app"}, CPUs: cpus})
			}
			p := carvedPools()
			if tc.fixed {
				p = fixedPools()
			}
			var got []string
			if tc.infra {
				p.Partitions, p.Infra = []pools.Partition{{Type: "management", CPUs: cpuset.Range(0, 1)}}, "management"
			}
			for _, a := range recovery.Assignments(m.Objects(), read, journal, nil, &desired.Settings{Pools: p}) {
				got = append(got, a.CPUs.String())
			}
			if fmt.Sprint(got) != fmt.Sprint(strings.Fields(tc.want)) {
				t.Errorf("assignments = %v; want %q", got, tc.want)
			}
		})
	}
}
