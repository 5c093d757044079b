package inventory_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestTotalAfterResize checks the total of a pod after a resize of its container c from 2
// CPUs. The runtime has reported the total of the pod's creation.
func TestTotalAfterResize(t *testing.T) {
	type other struct {
		cpus  int
		ended bool
	}
	for name, c := range map[string]struct {
		total  int // before, in CPUs; 0 if unknown
		others map[string]other
		to     int
		want   int
	}{
		"one container grows":                        {2, nil, 3, 3},
		"one container shrinks":                      {2, nil, 1, 1},
		"beside another":                             {3, map[string]other{"b": {1, false}}, 4, 5},
		"below a larger init container, which ended": {8, map[string]other{"init": {8, true}}, 3, 8},
		"above a larger init container, which ended": {4, map[string]other{"init": {4, true}}, 6, 6},
		"below its live containers":                  {3, map[string]other{"b": {1, false}, "init": {5, true}}, 1, 2},
		"pod-level resources":                        {5, nil, 3, 5},
		"above pod-level resources":                  {5, nil, 6, 6},
		"beside a container without a request":       {4, map[string]other{"b": {4, false}}, 3, 4},
		"the kubelet left the total as it was":       {1, nil, 3, 3},
		"unknown total":                              {0, nil, 3, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			p, ctr := w.run(cri.Running)
			p.Resources = cpus(c.total)
			w.runtime.pods["p"] = p
			for name, o := range c.others {
				b := ctr
				b.ID, b.Name, b.Requested = name, name, cpus(o.cpus)
				if o.ended {
					b.State, b.FinishedAt = cri.Exited, w.now
				}
				w.runtime.containers[name] = b
			}
			w.list()
			total := func() cri.Resources {
				r := w.Input(w.now)[0].Resources
				return cri.Resources{Shares: r.Shares, Quota: r.Quota, Period: r.Period}
			}
			before := total()
			undo := w.Resize(w.Container("c"), cpus(c.to))
			want := cpus(c.want)
			if c.want == 0 {
				want = before
			}
			if got := total(); got != want {
				t.Errorf("total %+v; want %+v", got, want)
			}
			if undo(); total() != before || w.Container("c").Request().Shares != cpus(2).Shares {
				t.Errorf("after undo the pod has %+v and the container %+v", total(), w.Container("c").Request())
			}
		})
	}
}

// TestResizeAndReports checks which reports of the runtime replace the size of a resize.
func TestResizeAndReports(t *testing.T) {
	shares := func(w *world) uint64 { return w.Container("c").Request().Shares }
	w := newWorld(t)
	p, c := w.run(cri.Running)
	w.list()
	before := w.Clock()
	w.Resize(w.Container("c"), cpus(3))
	w.fetchContainer("c", before)
	w.fetchPod("p", before)
	if got := shares(w); got != cpus(3).Shares {
		t.Errorf("an older report: %d shares; want %d", got, cpus(3).Shares)
	}
	if got := w.Input(w.now)[0].Resources.Shares; got != cpus(3).Shares {
		t.Errorf("total of the pod after an older report: %d shares; want %d", got, cpus(3).Shares)
	}
	w.fetchContainer("c", w.Clock())
	if got := shares(w); got != cpus(2).Shares {
		t.Errorf("a newer report: %d shares; want those of the runtime", got)
	}
	// The total stays until the runtime reports the same.
	p.Resources, c.Requested = cpus(3), cpus(3)
	w.runtime.pods["p"], w.runtime.containers["c"] = p, c
	w.fetchPod("p", w.Clock())
	w.fetchContainer("c", w.Clock())
	if s := w.Container("c").Size(); s.Total.Shares != 0 || s.Requested.Shares != cpus(3).Shares {
		t.Errorf("size after the runtime has made the resize: %+v", s)
	}
}

// TestNRIRemovesQuota checks that a report without quota, as some runtimes give it after a
// reply that removed the quota, does not change the request.
func TestNRIRemovesQuota(t *testing.T) {
	w := newWorld(t)
	_, c := w.run(cri.Running)
	w.list()
	c.Requested.Quota = -1
	w.runtime.containers["c"] = c
	w.fetchContainer("c", w.Clock())
	if r := w.Container("c").Request(); r.Quota != cpus(2).Quota || r.Period != cpus(2).Period {
		t.Errorf("request %+v", r)
	}
}

// TestCorrectSize checks the sizes after a resize that the runtime has not made.
func TestCorrectSize(t *testing.T) {
	for name, between := range map[string]struct {
		resize func(w *world)
		total  int
	}{
		"nothing between":              {func(*world) {}, 0},
		"another container in between": {func(w *world) { w.Resize(w.Container("b"), cpus(2)) }, 4},
	} {
		w := newWorld(t)
		p, c := w.run(cri.Running)
		b := c
		b.ID, b.Name, b.Requested = "b", "b", cpus(1)
		p.Resources = cpus(3)
		w.runtime.pods["p"], w.runtime.containers["b"] = p, b
		w.list()
		e := w.Container("c")
		from := e.Size()
		w.Resize(e, cpus(4))
		to := e.Size()
		between.resize(w)
		w.CorrectSize(e, to, from)
		if s := e.Size(); s.Requested != from.Requested || s.Total.Shares != cpus(between.total).Shares {
			t.Errorf("%s: size %+v; want %+v and a total of %d CPUs", name, s, from.Requested, between.total)
		}
	}
}
