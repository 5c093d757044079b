package daemon

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/recovery"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// TestRecoverAssignments: the kernel's word, then the runtime's, then the journal's.
func TestRecoverAssignments(t *testing.T) {
	m := inventory.New(cgroup.DriverSystemd)
	slice := "kubepods-podu.slice"
	m.PutPod(inventory.PodStatus{Pod: cri.Pod{ID: "p", UID: "u", Ready: true, CgroupParent: slice, CgroupsPath: slice + ":cri-containerd:p"}})
	kernel := make(map[cgroup.Path]string)
	put := func(id, name string, state cri.State, inKernel, recorded string) {
		m.PutContainer(inventory.ContainerStatus{Container: cri.Container{ID: id, PodID: "p", Name: name, State: state,
			CgroupsPath: slice + ":cri-containerd:" + id, Recorded: cri.Resources{CPUs: recorded}}})
		if inKernel != "" {
			kernel[m.Container(id).Path] = inKernel
		}
	}
	put("c1", "drifted", cri.Running, "4-5", "6-7")
	put("c2", "starting", cri.Created, "", "6")
	put("c3", "shared", cri.Running, "2-3", "2-3")
	put("c4", "wide", cri.Running, "0-7", "")
	put("c5", "again", cri.Exited, "", "7")
	put("c6", "again", cri.Running, "8", "7")
	put("c7", "ended", cri.Exited, "", "10") // the journal has nothing of it: others may have been given its CPUs
	// Its pod is stopped.
	m.PutPod(inventory.PodStatus{Pod: cri.Pod{ID: "q", UID: "v", CgroupParent: "kubepods-podv.slice"}})
	m.PutContainer(inventory.ContainerStatus{Container: cri.Container{ID: "c8", PodID: "q", Name: "stillborn", State: cri.Created, Recorded: cri.Resources{CPUs: "9"}}})
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
	for _, a := range recovery.Assignments(m, read, journal, &desired.Settings{Pools: pools.Pools{Guaranteed: cpuset.Range(4, 11)}}) {
		got[a.Key.Container] += a.CPUs.String()
	}
	want := map[string]string{"drifted": "4-5", "starting": "6", "again": "8", "resting": "9"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("assignments (-want +got):\n%s", d)
	}
}

// TestRecoverPartition: with pause containers elsewhere, nobody who is known to share, and fewer CPUs
// left than the pool has to keep, a set that nobody else has some of is its owner's where the kernel
// keeps others off it.
func TestRecoverPartition(t *testing.T) {
	m := inventory.New(cgroup.DriverSystemd)
	slice := "kubepods-podu.slice"
	m.PutPod(inventory.PodStatus{Pod: cri.Pod{ID: "p", UID: "u", Ready: true, CgroupParent: slice, CgroupsPath: slice + ":cri-containerd:p"}})
	for _, id := range []string{"parted", "not"} {
		m.PutContainer(inventory.ContainerStatus{Container: cri.Container{ID: id, PodID: "p", Name: id, State: cri.Running, CgroupsPath: slice + ":cri-containerd:" + id, Requested: nodefixture.WholeCPUs(2)}})
	}
	read := func(p cgroup.Path) (cgroup.State, error) {
		switch p {
		case m.Container("parted").Path:
			return cgroup.State{Path: p, CPUs: cpuset.Of(4, 5), Partition: cgroup.PartitionState{Type: cgroup.RootPartition}}, nil
		case m.Container("not").Path:
			return cgroup.State{Path: p, CPUs: cpuset.Of(6, 7)}, nil
		}
		return cgroup.State{}, cgroup.ErrGone
	}
	of := pools.Pools{FromShared: true, Floor: 3, Infra: "management", Shared: cpuset.Range(2, 7), Guaranteed: cpuset.Range(2, 7)}
	got := recovery.Assignments(m, read, nil, &desired.Settings{Pools: of})
	want := []pools.Assignment{{Key: pools.Key{PodUID: "u", Container: "parted"}, CPUs: cpuset.Of(4, 5)}}
	if d := cmp.Diff(want, got, cmp.Comparer(cpuset.Set.Equal)); d != "" {
		t.Errorf("assignments (-want +got):\n%s", d)
	}
}

// TestRecoverBesideReserved: CPUs that are reserved for pods are in nobody's set, and in the shared
// pool neither. A unit that was refused has what else there is, and gets none of it for itself because
// of them: at a start, and when systemd tells of it later.
func TestRecoverBesideReserved(t *testing.T) {
	const name = "du.service"
	of := pools.Pools{FromShared: true, Floor: 2, Infra: "management", Shared: cpuset.Range(1, 7), Guaranteed: cpuset.Range(1, 7), Units: []pools.UnitSpec{{Name: name, CPUs: 2}}}
	read := func(p cgroup.Path) (cgroup.State, error) { return cgroup.State{Path: p, CPUs: cpuset.Range(1, 2)}, nil }
	for _, tc := range []struct {
		name                 string
		reserved, away, want string
	}{
		{name: "nothing", want: "1-2"},
		{name: "some, and enough is left", reserved: "3-5", want: "1-2"},
		{name: "all but one", reserved: "3-6"},
		{name: "all but one, some of it offline", reserved: "3-5", away: "6"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			held := []pools.Assignment{{Key: pools.Key{PodUID: "u"}, CPUs: parsed(t, tc.reserved), Away: parsed(t, tc.away)}}
			for when, recovered := range map[string]func(*inventory.Inventory) []pools.Assignment{
				"start": func(m *inventory.Inventory) []pools.Assignment {
					return recovery.Assignments(m, read, held, &desired.Settings{Pools: of})
				},
				"later": func(m *inventory.Inventory) []pools.Assignment {
					return recovery.Late(m, read, held, &desired.Settings{Pools: of})
				},
			} {
				m := inventory.New(cgroup.DriverSystemd)
				m.PutUnit(inventory.UnitStatus{Name: name, Unit: cgroup.Unit{Name: name, Path: "system.slice/" + name}})
				var got string
				for _, a := range recovered(m) {
					if a.Key.Container == name {
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

// TestRecoverBesideRefused: where pause containers are elsewhere, containers that were refused CPUs of
// their own may be all that shares. A unit keeps its CPUs beside them without a journal if what they
// have shows that they share.
func TestRecoverBesideRefused(t *testing.T) {
	const name = "du.service"
	of := pools.Pools{FromShared: true, Floor: 2, Infra: "management", Shared: cpuset.Range(1, 5), Guaranteed: cpuset.Range(1, 5), Units: []pools.UnitSpec{{Name: name, CPUs: 2}}}
	type refused struct {
		asks          int
		kernel        string
		recorded      string // of one that is not started yet
		quota, parted bool
	}
	for _, tc := range []struct {
		name        string
		others      []refused
		annotations map[string]string
		held        string // by the first of them
		want        string
	}{
		{name: "nobody tells", others: []refused{{asks: 3, kernel: "3-5"}}},
		{name: "larger", others: []refused{{asks: 1, kernel: "3-5"}}, want: "1-2"},
		{name: "larger, and not started yet", others: []refused{{asks: 1, recorded: "3-5"}}, want: "1-2"},
		{name: "larger, but a partition", others: []refused{{asks: 1, kernel: "3-5", parted: true}}},
		{name: "larger, but on record", others: []refused{{asks: 1, kernel: "3-5"}}, held: "3"},
		{name: "larger, and not in the pool", others: []refused{{asks: 1, kernel: "6-7"}, {asks: 3, kernel: "3-5"}}},
		{name: "two in the same set", others: []refused{{asks: 3, kernel: "3-5"}, {asks: 3, kernel: "3-5"}}, want: "1-2"},
		{name: "two sets", others: []refused{{asks: 2, kernel: "3-4"}, {asks: 1, kernel: "5"}}},
		{name: "with a quota", others: []refused{{asks: 3, kernel: "3-5", quota: true}}, want: "1-2"},
		{name: "fewer, with a quota", others: []refused{{asks: 4, kernel: "3-5", quota: true}}, want: "1-2"},
		{name: "with a quota to keep", others: []refused{{asks: 3, kernel: "3-5", quota: true}}, annotations: map[string]string{"cpu-quota.crio.io": "enable"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := inventory.New(cgroup.DriverSystemd)
			slice := "kubepods-podu.slice"
			m.PutPod(inventory.PodStatus{Pod: cri.Pod{ID: "p", UID: "u", Ready: true, CgroupParent: slice, CgroupsPath: slice + ":cri-containerd:p", Annotations: tc.annotations}})
			unit := cgroup.Unit{Name: name, Path: "system.slice/" + name}
			m.PutUnit(inventory.UnitStatus{Name: name, Unit: unit})
			states := map[cgroup.Path]cgroup.State{unit.Path: {CPUs: cpuset.Range(1, 2)}}
			for i, o := range tc.others {
				id := fmt.Sprint("c", i)
				c := cri.Container{ID: id, PodID: "p", Name: id, State: cri.Running, CgroupsPath: slice + ":cri-containerd:" + id, Requested: nodefixture.WholeCPUs(o.asks), Recorded: cri.Resources{CPUs: o.recorded}}
				if o.kernel == "" {
					c.State = cri.Created
				}
				m.PutContainer(inventory.ContainerStatus{Container: c})
				st := cgroup.State{CPUs: parsed(t, o.kernel), Quota: -1}
				if o.quota {
					st.Quota = c.Requested.Quota
				}
				if o.parted {
					st.Partition.Type = cgroup.RootPartition
				}
				states[m.Container(id).Path] = st
			}
			var journal []pools.Assignment
			if tc.held != "" {
				journal = append(journal, pools.Assignment{Key: pools.Key{PodUID: "u", Container: "c0"}, CPUs: parsed(t, tc.held)})
			}
			read := func(p cgroup.Path) (cgroup.State, error) { return states[p], nil }
			var got string
			for _, a := range recovery.Assignments(m, read, journal, &desired.Settings{Pools: of}) {
				switch {
				case a.Key.PodUID == "":
					got = a.CPUs.String()
				case tc.want != "":
					t.Errorf("%s is taken for the owner of %s", a.Key.Container, a.CPUs)
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
