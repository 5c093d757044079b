package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/listing"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// codeUnread is the code of the inventory's problems.
const codeUnread = "RuntimeDetailsMissing"

// partialRuntime is a runtime that does not answer, or not completely, about some objects.
type partialRuntime struct {
	hostenv.Runtime
	mu      sync.Mutex // guards the fields below
	silent  map[string]bool
	partial map[string]bool
	asked   atomic.Int32
}

func (f *partialRuntime) fault(kind, id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.silent[id]:
		f.asked.Add(1)
		return errors.New("no answer")
	case f.partial[id]:
		f.asked.Add(1)
		return &cri.InfoError{Kind: kind, ID: id, Field: "info", Err: errors.New("missing")}
	}
	return nil
}

func (f *partialRuntime) PodStatus(ctx context.Context, id string) (cri.Pod, error) {
	p, err := f.Runtime.PodStatus(ctx, id)
	if fault := f.fault("pod", id); fault != nil {
		p.CgroupParent, p.CgroupsPath, p.Resources = "", "", cri.Resources{}
		return p, fault
	}
	return p, err
}

func (f *partialRuntime) ContainerStatus(ctx context.Context, id string) (cri.Container, error) {
	c, err := f.Runtime.ContainerStatus(ctx, id)
	if fault := f.fault("container", id); fault != nil {
		c.PodID, c.CgroupsPath, c.Recorded, c.Requested = "", "", cri.Resources{}, cri.Resources{}
		return c, fault
	}
	return c, err
}

func (f *partialRuntime) remember() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.silent, f.partial = nil, nil
}

// startImpatient starts a daemon that decides after its first listing.
func (n *node) startImpatient(h hostenv.Host) *running {
	n.T.Helper()
	o := n.options()
	l, err := newLoop(h, o)
	if err != nil {
		n.T.Fatal(err)
	}
	l.schedule.listings.Begin(l.now().Add(-listing.FirstTime))
	l.schedule.listings.End(true, l.now().Add(-listing.FirstTime), time.Minute)
	return n.serve(l)
}

// TestRestartMovesNobodyUnread checks that a running container keeps its CPUs whatever a
// runtime does not report to a daemon that starts, then and after it is reported. No other
// container gets them.
func TestRestartMovesNobodyUnread(t *testing.T) {
	for pool, yaml := range map[string]string{"fixed": nodefixture.PoolsYAML, "carved": nodefixture.CarvedYAML} {
		for _, journal := range []string{"kept", "lost"} {
			for _, answer := range []string{"silent", "partial"} {
				for _, of := range []string{"pod", "container", "both", "all"} {
					t.Run(pool+"/journal "+journal+"/"+answer+"/"+of, func(t *testing.T) {
						unreadAtStart(t, yaml, journal == "lost", answer == "silent", of)
					})
				}
			}
		}
	}
}

func unreadAtStart(t *testing.T, yaml string, journalLost, silent bool, of string) {
	n := newNode(t)
	n.YAML = yaml
	r := n.start()
	sharedPod := n.RunPod("s", "default", "burstable", 0, nil)
	shared := n.RunContainer(sharedPod, "app", nodefixture.WholeCPUs(1))
	other := n.RunContainer(sharedPod, "other", nodefixture.WholeCPUs(1))
	pod := n.RunPod("a", "default", "guaranteed", 2, nil)
	excl := n.RunContainer(pod, "app", nodefixture.WholeCPUs(2))
	n.Eventually("placed", func() bool { return n.State(excl).Effective.Len() == 2 })
	r.quiet()
	r.stop()
	had := n.State(excl).CPUs
	if journalLost {
		if err := os.Remove(filepath.Join(n.Dir, "journal.json")); err != nil {
			t.Fatal(err)
		}
	}
	faulty := map[string]map[string]bool{
		"pod": {pod: true}, "container": {excl: true}, "both": {pod: true, excl: true},
		"all": {pod: true, excl: true, sharedPod: true, shared: true, other: true},
	}[of]
	h := n.Host()
	rt := &partialRuntime{Runtime: h.Runtime}
	if silent {
		rt.silent = faulty
	} else {
		rt.partial = faulty
	}
	h.Runtime = rt
	before := len(n.Tree.Writes())
	r = n.startImpatient(h)
	// A new owner needs CPUs of the shared pool.
	late := n.RunContainer(n.RunPod("b", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	n.Eventually("late container placed", func() bool { return n.State(late).Effective.Len() == 2 })
	r.quiet()
	if rt.asked.Load() == 0 {
		t.Fatal("the runtime told everything: the test shows nothing")
	}
	n.CheckAssigned()
	lateHas := n.State(late).CPUs
	rt.remember()
	r.loop.box.Post(streamChanged{state: cri.Connected}) // leads to a listing
	n.Eventually("everything read", func() bool {
		return r.loop.publisher.Metrics().Problems[codeUnread] == 0
	})
	r.quiet()
	n.CheckAssigned()
	got := map[string]string{"container": n.State(excl).CPUs.String(), "late": n.State(late).CPUs.String()}
	if d := cmp.Diff(map[string]string{"container": had.String(), "late": lateHas.String()}, got); d != "" {
		t.Errorf("moved (-before +after):\n%s", d)
	}
	for _, w := range n.Tree.Writes()[before:] {
		if filepath.Dir(w.Name) == n.Runtime.Cgroup(excl) && filepath.Base(w.Name) == cgroup.FileCPUs && w.Value != had.String() {
			t.Errorf("the container was moved: %v", w)
		}
	}
}
