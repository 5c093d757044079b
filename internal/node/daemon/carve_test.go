package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/recovery"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

func TestSharedGivesWayAndComesBack(t *testing.T) {
	n := newNode(t)
	n.YAML = nodefixture.CarvedYAML
	r := n.start()
	shared := n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	n.AwaitCPUs(shared, "2-7")
	pod := n.RunPod("e", "default", "guaranteed", 2, nil)
	excl := n.RunContainer(pod, "app", nodefixture.WholeCPUs(2))
	n.Eventually("exclusive CPUs", func() bool { return n.State(excl).Effective.Len() == 2 })
	r.quiet()
	mine, rest := n.State(excl).Effective, cpuset.Range(2, 7)
	n.AwaitCPUs(shared, rest.Difference(mine).String())
	n.AwaitCPUs(pod, rest.Difference(mine).String())
	n.CheckAssigned()
	if err := n.Runtime.StopPod(pod); err != nil {
		t.Fatal(err)
	}
	n.AwaitCPUs(shared, "2-7")
}

// TestRestartMovesNobodyThatIsCarved: exclusive and shared containers lie in one
// pool, and a daemon that starts tells them apart.
func TestRestartMovesNobodyThatIsCarved(t *testing.T) {
	n := newNode(t)
	n.YAML = nodefixture.CarvedYAML
	r := n.start()
	shared := n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	first := n.RunContainer(n.RunPod("e1", "default", "guaranteed", 1, nil), "app", nodefixture.WholeCPUs(1))
	n.Eventually("first placed", func() bool { return n.State(first).Effective.Len() == 1 })
	second := n.RunContainer(n.RunPod("e2", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	n.Eventually("second placed", func() bool { return n.State(second).Effective.Len() == 2 })
	// 3 of 6 CPUs are left for the shared pool, and this one wants 3: refused, and
	// its set has as many CPUs as it asks for.
	refused := n.RunContainer(n.RunPod("e3", "default", "guaranteed", 3, nil), "app", nodefixture.WholeCPUs(3))
	n.Eventually("third in the shared pool", func() bool { return n.State(refused).Effective.Equal(n.State(shared).Effective) })
	r.quiet()
	r.stop()
	for name, damage := range map[string]func() error{
		"journal kept": func() error { return nil },
		"journal lost": func() error { return os.RemoveAll(filepath.Join(n.Dir, "journal.json")) },
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		before := len(n.Tree.Writes())
		r := n.start()
		r.quiet()
		r.stop()
		if writes := n.Tree.Writes()[before:]; len(writes) != 0 {
			t.Errorf("%s: a restart with nothing to do wrote %v", name, writes)
		}
	}
}

// TestLateContainersKeepTheirCPUs: a container that cannot be described at first is
// not moved when it can be.
func TestLateContainersKeepTheirCPUs(t *testing.T) {
	for name, yaml := range map[string]string{"fixed": nodefixture.PoolsYAML, "carved": nodefixture.CarvedYAML} {
		t.Run(name, func(t *testing.T) {
			m := inventory.New(cgroup.DriverSystemd)
			slice := "kubepods-podu.slice"
			m.PutPod(inventory.PodStatus{Pod: cri.Pod{ID: "p", UID: "u", Ready: true, CgroupParent: slice, CgroupsPath: slice + ":cri-containerd:p"}})
			c := cri.Container{ID: "c", PodID: "p", Name: "app", State: cri.Running, CgroupsPath: slice + ":cri-containerd:c", Requested: nodefixture.WholeCPUs(2)}
			m.PutContainer(inventory.ContainerStatus{Container: c, Partial: os.ErrDeadlineExceeded})
			m.Unconsidered()
			m.Started = time.Now()
			m.PutContainer(inventory.ContainerStatus{Container: c})
			read := func(p cgroup.Path) (cgroup.State, error) {
				st := cgroup.State{Path: p, CPUs: cpuset.Range(2, 3)}
				if p == m.Container("c").Path {
					st.CPUs = cpuset.Range(6, 7)
				}
				return st, nil
			}
			n := newNode(t)
			n.YAML = yaml
			var s desired.Settings
			o := n.options()
			if err := s.Change(o.Config, o.Topology, nil); err != nil {
				t.Fatal(err)
			}
			other := pools.Assignment{Key: pools.Key{PodUID: "x", Container: "app"}, CPUs: cpuset.Of(4)}
			got := recovery.Late(m, read, []pools.Assignment{other}, &s)
			if len(got) != 2 || got[1].Key != (pools.Key{PodUID: "u", Container: "app"}) || got[1].CPUs.String() != "6-7" {
				t.Errorf("assignments = %v; want that 6-7 is u/app's", got)
			}
			m.Container("c").Recovered = false
			other.CPUs = cpuset.Of(6)
			if got := recovery.Late(m, read, []pools.Assignment{other}, &s); len(got) != 1 {
				t.Errorf("assignments = %v; want that CPU 6 stays whose it is", got)
			}
		})
	}
}

// TestRecoveryTellsSharedFromExclusive is the rule of recover.go by cases.
func TestRecoveryTellsSharedFromExclusive(t *testing.T) {
	slice := "kubepods-podu.slice"
	for _, tc := range []struct {
		name                    string
		fixed                   bool
		asks                    int
		kernel, recorded, other string
		journal, want           string
		mixed, infra            bool
		besteffort              string // where a container of the shared pool is
	}{
		{name: "alone and of the right size", asks: 2, kernel: "4-5", other: "2-3,6-7", want: "4-5"},
		{name: "the shared set, of the same size", asks: 2, kernel: "2-3", other: "2-3"},
		{name: "the shared set, of another size", asks: 2, kernel: "2-4", other: "2-4"},
		{name: "alone, but larger", asks: 1, kernel: "4-5", other: "2-3"},
		{name: "alone, and smaller", asks: 3, kernel: "4-5", other: "2-3", want: "4-5"},
		{name: "alone and smaller, but nobody is shared", asks: 3, kernel: "4-5"},
		{name: "alone, of another size, and fixed", fixed: true, asks: 1, kernel: "4-5", other: "2-3", want: "4-5"},
		{name: "the journal agrees", asks: 1, kernel: "4-5", other: "4-7", journal: "4-5", want: "4-5"},
		{name: "the journal knows more", asks: 2, kernel: "4", other: "2-3", journal: "4-5", want: "4-5"},
		{name: "the kernel goes before the journal", asks: 2, kernel: "4-5", other: "2-3", journal: "6-7", want: "4-5"},
		{name: "the kernel has forgotten", asks: 2, kernel: "", recorded: "6-7", other: "2-3", want: "6-7"},
		{name: "the kernel was made wide", asks: 2, kernel: "0-7", recorded: "6-7", other: "2-3", want: "6-7"},
		{name: "nothing but the journal", asks: 2, journal: "6-7", other: "2-3", want: "6-7"},
		{name: "outside of the pool", asks: 2, kernel: "0-1", other: "2-3"},
		{name: "mixed", mixed: true, asks: 2, kernel: "2-5", other: "2-3", want: "4-5"},
		{name: "mixed, and the journal agrees", mixed: true, asks: 2, kernel: "2-5", other: "2-3", journal: "4-5", want: "4-5"},
		{name: "mixed, and not told to the others yet", mixed: true, asks: 2, kernel: "2-5,7", other: "2-3", journal: "4-5", want: "4-5"},
		{name: "mixed, not told yet and no journal", mixed: true, asks: 2, kernel: "2-5,7", other: "2-3"},
		{name: "mixed, and in the shared pool", mixed: true, asks: 2, kernel: "2-4", other: "2-4"},
		{name: "mixed, in the shared pool with an old journal", mixed: true, asks: 2, kernel: "2-4", other: "2-4", journal: "2-3", want: "2-3"},
		{name: "mixed, recorded alone", mixed: true, asks: 2, recorded: "2-3,6-7", other: "2-3", want: "6-7"},
		{name: "mixed, and its own alone", mixed: true, asks: 2, kernel: "6-7", other: "2-3", want: "6-7"},
		{name: "mixed and fixed", mixed: true, fixed: true, asks: 2, kernel: "1-3,4-5", other: "2-3", want: "4-5"},
		{name: "mixed, nobody shared and no journal", mixed: true, asks: 2, kernel: "2-5"},
		{name: "mixed, nobody shared", mixed: true, asks: 2, kernel: "2-5", journal: "2-3", want: "2-3"},
		{name: "not mixed", asks: 2, kernel: "2-5", other: "2-3"},
		{name: "pause containers elsewhere", infra: true, asks: 2, kernel: "4-5", other: "0-1", want: "4-5"},
		{name: "pause containers elsewhere, and nothing else is left of the pool", infra: true, asks: 6, kernel: "2-7", other: "0-1"},
		{name: "pause containers elsewhere, and recorded alone", infra: true, asks: 2, recorded: "4-5", other: "0-1"},
		{name: "pause containers elsewhere, somebody shared", infra: true, asks: 2, kernel: "4-5", other: "0-1", besteffort: "2-3", want: "4-5"},
		{name: "pause containers elsewhere, and smaller", infra: true, asks: 3, kernel: "4-5", other: "0-1", want: "4-5"},
		{name: "pause containers elsewhere, and a journal", infra: true, asks: 2, kernel: "4-5", other: "0-1", journal: "4-5", want: "4-5"},
		{name: "pause containers elsewhere, mixed", infra: true, mixed: true, asks: 2, kernel: "2-5", other: "0-1", besteffort: "2-3", want: "4-5"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := inventory.New(cgroup.DriverSystemd)
			pod := cri.Pod{ID: "p", UID: "u", Ready: true, CgroupParent: slice, CgroupsPath: slice + ":cri-containerd:p"}
			if tc.mixed {
				pod.Annotations = map[string]string{"cpu-shared.crio.io/app": "enable"}
			}
			m.PutPod(inventory.PodStatus{Pod: pod})
			if tc.besteffort != "" {
				m.PutPod(inventory.PodStatus{Pod: cri.Pod{ID: "q", UID: "v", Ready: true, CgroupParent: "kubepods-besteffort-podv.slice", CgroupsPath: "kubepods-besteffort-podv.slice:cri-containerd:q"}})
				m.PutContainer(inventory.ContainerStatus{Container: cri.Container{ID: "d", PodID: "q", Name: "app", State: cri.Running,
					CgroupsPath: "kubepods-besteffort-podv.slice:cri-containerd:d", Requested: cri.Resources{Shares: 2}}})
			}
			m.PutContainer(inventory.ContainerStatus{Container: cri.Container{ID: "c", PodID: "p", Name: "app", State: cri.Running,
				CgroupsPath: slice + ":cri-containerd:c", Requested: nodefixture.WholeCPUs(tc.asks), Recorded: cri.Resources{CPUs: tc.recorded}}})
			read := func(p cgroup.Path) (cgroup.State, error) {
				text := tc.other
				switch {
				case p == m.Container("c").Path:
					text = tc.kernel
				case tc.besteffort != "" && p == m.Container("d").Path:
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
			p := pools.Pools{Shared: cpuset.Range(2, 7), Guaranteed: cpuset.Range(2, 7), FromShared: true}
			if tc.fixed {
				p = pools.Pools{Shared: cpuset.Range(2, 3), Guaranteed: cpuset.Range(4, 7)}
			}
			var got []string
			if tc.infra {
				p.Partitions, p.Infra = []pools.Partition{{Type: "management", CPUs: cpuset.Range(0, 1)}}, "management"
			}
			for _, a := range recovery.Assignments(m, read, journal, &desired.Settings{Pools: p}) {
				got = append(got, a.CPUs.String())
			}
			if fmt.Sprint(got) != fmt.Sprint(strings.Fields(tc.want)) {
				t.Errorf("assignments = %v; want %q", got, tc.want)
			}
		})
	}
}
