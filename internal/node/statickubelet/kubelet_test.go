package statickubelet_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/statickubelet"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/podresources"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// stateFile is a fake state file of a kubelet.
type stateFile struct {
	state podresources.CPUState
	err   error
}

func (f *stateFile) State(context.Context) (podresources.CPUState, error) { return f.state, f.err }

// podResources is a fake PodResources server.
type podResources struct {
	listed []podresources.Container
	err    error
}

func (r *podResources) List(context.Context) ([]podresources.Container, error) {
	return r.listed, r.err
}

// TestStaticKubelet checks which allocation is in force after a series of answers. The
// state file precedes PodResources, and both precede the last known allocation.
func TestStaticKubelet(t *testing.T) {
	torn := errors.New("unexpected end of JSON input")
	holding := func(cpus ...int) podresources.CPUState {
		s := podresources.CPUState{Policy: "static", Default: cpuset.Range(2, 7)}
		if len(cpus) > 0 {
			s.Holdings = []podresources.Holding{{PodUID: "u", Container: "app", CPUs: cpuset.Of(cpus...)}}
			s.Default = s.Default.Difference(cpuset.Of(cpus...))
		}
		return s
	}
	listing := func(cpus ...int) *podResources {
		return &podResources{listed: []podresources.Container{
			{Namespace: "default", Pod: "p", Name: "app", CPUs: cpuset.Of(cpus...)},
			{Namespace: "default", Pod: "p", Name: "side"},
			{Namespace: "default", Pod: "unknown", Name: "app", CPUs: cpuset.Of(7)},
		}}
	}
	type answer struct {
		file   stateFile
		listed *podResources
	}
	for name, c := range map[string]struct {
		answers      []answer
		held, shared string
		err          error
		problems     []pools.Code
	}{
		"file":                {answers: []answer{{stateFile{state: holding(3)}, nil}}, held: "3", shared: "2,4-7"},
		"torn file":           {answers: []answer{{stateFile{err: torn}, nil}}, err: torn, problems: []pools.Code{"KubeletUnread"}},
		"then torn":           {answers: []answer{{stateFile{state: holding(3)}, nil}, {stateFile{err: torn}, nil}}, held: "3", shared: "2,4-7", err: torn, problems: []pools.Code{"KubeletUnread"}},
		"then listed":         {answers: []answer{{stateFile{state: holding(3)}, nil}, {stateFile{err: torn}, listing(4)}}, held: "4", shared: "2-3,5-6", err: torn, problems: []pools.Code{"KubeletUnread"}},
		"then not listed":     {answers: []answer{{stateFile{state: holding(3)}, nil}, {stateFile{err: torn}, &podResources{err: torn}}}, held: "3", shared: "2,4-7", err: torn, problems: []pools.Code{"KubeletUnread"}},
		"then all ended":      {answers: []answer{{stateFile{state: holding(3)}, nil}, {stateFile{err: torn}, &podResources{}}}, shared: "2-7", err: torn, problems: []pools.Code{"KubeletUnread"}},
		"then repaired":       {answers: []answer{{stateFile{err: torn}, nil}, {stateFile{state: holding(4, 5)}, nil}}, held: "4-5", shared: "2-3,6-7"},
		"then another policy": {answers: []answer{{stateFile{state: holding(3)}, nil}, {stateFile{state: podresources.CPUState{Policy: "none"}}, nil}}, problems: []pools.Code{"KubeletNotStatic"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := inventory.New(cgroup.DriverSystemd)
			m.ExpectPod(cri.Pod{ID: "sandbox", UID: "u", Namespace: "default", Name: "p"})
			var k statickubelet.Kubelet
			for _, a := range c.answers {
				h := hostenv.Host{CPUManager: &a.file}
				if a.listed != nil {
					h.Devices = a.listed
				}
				k.Take(statickubelet.Fetch(t.Context(), &h), m.Objects(), time.Now())
			}
			var held []string
			for _, a := range k.Held() {
				held = append(held, a.CPUs.String())
			}
			if got := strings.Join(held, " "); got != c.held || k.CPUs().String() != c.held || k.Shared().String() != c.shared {
				t.Errorf("held %q, CPUs %s, shared %q; want %q, %q", got, k.CPUs(), k.Shared(), c.held, c.shared)
			}
			if !errors.Is(k.Err(), c.err) || !k.IsKnown() {
				t.Errorf("error %v, known %t", k.Err(), k.IsKnown())
			}
			var codes []pools.Code
			for _, p := range k.Problems(true) {
				codes = append(codes, p.Code)
			}
			if d := cmp.Diff(c.problems, codes); d != "" {
				t.Errorf("problems (-want +got):\n%s", d)
			}
		})
	}
}

// TestKubeletProblems checks the problems before the first answer and without NRI.
func TestKubeletProblems(t *testing.T) {
	var k statickubelet.Kubelet
	if got := k.Problems(false); len(got) > 0 || k.IsKnown() {
		t.Errorf("before the first answer: %v", got)
	}
	h := hostenv.Host{CPUManager: &stateFile{state: podresources.CPUState{Policy: "static"}}}
	k.Take(statickubelet.Fetch(t.Context(), &h), inventory.New(cgroup.DriverSystemd).Objects(), time.Now())
	if got := k.Problems(false); len(got) != 1 || got[0].Code != "KubeletUnheard" {
		t.Errorf("without NRI: %v", got)
	}
}

// TestKubeletQuestions checks when the state file is read: after a change, one question at a
// time, and again some time after an error.
func TestKubeletQuestions(t *testing.T) {
	var k statickubelet.Kubelet
	now := time.Now()
	m := inventory.New(cgroup.DriverSystemd)
	answer := func(err error) {
		k.Take(statickubelet.Fetch(t.Context(), &hostenv.Host{CPUManager: &stateFile{err: err}}), m.Objects(), now)
	}
	if k.Ask(now) {
		t.Error("asked before an event")
	}
	k.Invalidate()
	if !k.Ask(now) || k.Ask(now) {
		t.Error("not asked once after an event")
	}
	k.Invalidate()
	if k.Ask(now) {
		t.Error("two questions at a time")
	}
	answer(nil)
	if !k.Ask(now) || !k.Next().IsZero() {
		t.Error("an event during a question is lost")
	}
	answer(errors.New("torn"))
	if k.Ask(now) || !k.Next().After(now) {
		t.Errorf("asked at once after an error, or never again: %v", k.Next())
	}
	if now = k.Next(); !k.Ask(now) {
		t.Error("not asked again")
	}
}

// TestReadKubelet checks the answer for callers without an event loop.
func TestReadKubelet(t *testing.T) {
	torn := errors.New("torn")
	m := inventory.New(cgroup.DriverSystemd)
	if k, err := statickubelet.Read(t.Context(), &hostenv.Host{}, m.Objects()); err != nil || k.IsKnown() {
		t.Errorf("without a static kubelet: %v", err)
	}
	if _, err := statickubelet.Read(t.Context(), &hostenv.Host{CPUManager: &stateFile{}}, m.Objects()); err != nil {
		t.Error(err)
	}
	h := hostenv.Host{CPUManager: &stateFile{err: torn}}
	if _, err := statickubelet.Read(t.Context(), &h, m.Objects()); !errors.Is(err, torn) || !errors.Is(err, podresources.ErrNoKubelet) {
		t.Errorf("without any answer: %v", err)
	}
}

// TestKubeletOriginals checks that a restore gives containers the kubelet's default set.
func TestKubeletOriginals(t *testing.T) {
	all := []undo.Original{
		{File: cgroup.FileCPUs, Container: "c", Value: "2-7"}, {File: cgroup.FileWeight, Container: "c", Value: "59"}, {File: cgroup.FileCPUs, Unit: "du.service", Value: "2-7"},
		{Path: "kubepods.slice/kubepods-podu.slice/crio-c.scope/container", File: cgroup.FileCPUs, Value: "2-7"},
	}
	static := podresources.CPUState{Policy: "static", Default: cpuset.Range(4, 7)}
	for name, c := range map[string]struct {
		kubelet *stateFile
		want    string
		fails   bool
	}{
		"no static kubelet": {nil, "2-7", false},
		"static":            {&stateFile{state: static}, "4-7", false},
		"another policy":    {&stateFile{state: podresources.CPUState{Policy: "none"}}, "2-7", false},
		"torn file":         {&stateFile{err: errors.New("torn")}, "2-7", true},
	} {
		var h hostenv.Host
		if c.kubelet != nil {
			h.CPUManager = c.kubelet
		}
		got, err := statickubelet.Originals(t.Context(), &h, all)
		if got[0].Value != c.want || got[3].Value != c.want || got[1] != all[1] || got[2] != all[2] || (err != nil) != c.fails {
			t.Errorf("%s: %v, %v; want CPUs %s", name, got, err, c.want)
		}
	}
}
