package daemon

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// sandboxless is a runtime that does not list some sandboxes, and has no events.
type sandboxless struct {
	hostenv.Runtime
	lost map[string]bool // set while no daemon runs
}

func (s *sandboxless) List(ctx context.Context) ([]cri.Pod, []cri.Container, error) {
	ps, cs, err := s.Runtime.List(ctx)
	return slices.DeleteFunc(ps, func(p cri.Pod) bool { return s.lost[p.ID] }), cs, err
}

func (s *sandboxless) PodStatus(ctx context.Context, id string) (cri.Pod, error) {
	if s.lost[id] {
		return cri.Pod{}, cri.ErrNotFound
	}
	return s.Runtime.PodStatus(ctx, id)
}

// relist waits for a listing that starts now, and until the daemon is idle.
func (r *running) relist() {
	r.T.Helper()
	began := false
	r.Eventually("listing", func() (ended bool) {
		r.inspectOnly(func(l *Loop) {
			if ended = began && !l.schedule.listings.IsBusy(); !began && !l.schedule.listings.IsBusy() {
				began = true
				l.list()
			}
		})
		return ended
	})
	r.quiet()
}

// TestUnlistedSandbox checks that a container keeps its CPUs while the runtime lists it as
// created or running, without its sandbox. The sandbox is missing before a start of the daemon,
// with its journal or without, or while the daemon runs.
func TestUnlistedSandbox(t *testing.T) {
	for pool, yaml := range map[string]string{"fixed": nodefixture.PoolsYAML, "carved": nodefixture.CarvedYAML} {
		for _, when := range []string{"while it runs", "before a start", "before a start without journal"} {
			t.Run(pool+"/"+when, func(t *testing.T) { unlisted(t, yaml, when) })
		}
	}
}

func unlisted(t *testing.T, yaml, when string) {
	n := newNode(t)
	n.YAML = yaml
	h := n.Host()
	rt := &sandboxless{Runtime: h.Runtime}
	h.Runtime = rt
	shared := n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	pod := n.RunPod("a", "default", "guaranteed", 2, nil)
	excl := n.RunContainer(pod, "app", nodefixture.WholeCPUs(2))
	r := n.startOn(h) // which lists them at once: there are no events
	n.Eventually("placed", func() bool { return n.State(excl).Effective.Len() == 2 && !n.State(shared).CPUs.IsEmpty() })
	r.quiet()
	r.stop()
	had := n.State(excl).CPUs
	if when == "before a start without journal" {
		if err := os.Remove(filepath.Join(n.Dir, "journal.json")); err != nil {
			t.Fatal(err)
		}
	}
	if when == "while it runs" {
		r = n.startOn(h)
		r.quiet()
		r.stop() // with its complete journal
		l, err := newLoop(h, n.options())
		if err != nil {
			t.Fatal(err)
		}
		l.inventory.Merge(l.inventory.Query(nil, true).List(t.Context(), &l.Host))
		l.inventory.BeginWatch(l.now())
		rt.lost = map[string]bool{pod: true}
		l.schedule.listings.End(false, l.now(), time.Minute)
		l.planner.Assign(r.loop.planner.Assignments())
		l.planner.Formula.NoteNoRuntime()
		r = n.serve(l)
	} else {
		rt.lost = map[string]bool{pod: true}
		r = n.startOn(h)
	}
	before := len(n.Tree.Writes())
	late := n.RunContainer(n.RunPod("b", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	later := n.RunContainer(n.RunPod("c", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	r.relist()
	r.view("problem", func(v *telemetry.View) bool { return v.Problems[codeUnread] == 1 })
	if when == "while it runs" {
		n.CheckAssigned()
	} // otherwise the pause container, which is idle, is unknown
	if got := n.State(excl).CPUs; !got.Equal(had) || n.State(late).CPUs.Union(n.State(later).CPUs).Overlaps(had) {
		t.Errorf("the container had %s and has %s; others have %s and %s", had, got, n.State(late).CPUs, n.State(later).CPUs)
	}
	for _, w := range n.Tree.Writes()[before:] {
		if filepath.Dir(w.Name) == n.Runtime.Cgroup(excl) {
			t.Errorf("the container was disturbed: %v", w)
		}
	}
	if err := n.Runtime.StopContainer(excl); err != nil {
		t.Fatal(err)
	}
	r.relist()
	r.view("no problem", func(v *telemetry.View) bool { return v.Problems[codeUnread] == 0 })
	n.Eventually("nothing held for a container that has ended, of a pod that is gone", func() bool {
		return !slices.ContainsFunc(n.Journal().Assignments, func(a pools.Assignment) bool { return a.PodUID == "a" })
	})
	n.Eventually("both placed", func() bool {
		return n.State(late).Effective.Len() == 2 && n.State(later).Effective.Len() == 2 && n.State(later).Quota == -1
	})
}

// lateList is a runtime whose list of sandboxes is older than its list of containers.
type lateList struct{ *sandboxless }

func (l lateList) PodStatus(ctx context.Context, id string) (cri.Pod, error) {
	return l.Runtime.PodStatus(ctx, id)
}

// TestSandboxNewerThanTheList checks that such a sandbox is requested before any decision.
func TestSandboxNewerThanTheList(t *testing.T) {
	n := newNode(t)
	h := n.Host()
	pod := n.RunPod("a", "default", "guaranteed", 2, nil)
	h.Runtime = lateList{&sandboxless{Runtime: h.Runtime, lost: map[string]bool{pod: true}}}
	excl := n.RunContainer(pod, "app", nodefixture.WholeCPUs(2))
	r := n.startOn(h)
	n.AwaitCPUs(excl, "4-5")
	r.quiet()
	if said := n.Logged("problem appeared"); len(said) > 0 {
		t.Errorf("problems: %v", said)
	}
}
