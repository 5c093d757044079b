package appfiles_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/appcpus"
	"github.com/cpupoold/cpupoold/internal/node/appfiles"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

const path = cgroup.Path("kubepods.slice/kubepods-podu.slice/cri-containerd-1.scope")

// kernel is a fake kernel with one cgroup.
type kernel struct{ state cgroup.State }

func (k *kernel) Read(cgroup.Path) (cgroup.State, error)      { return k.state, nil }
func (k *kernel) Check(st cgroup.State) (cgroup.State, error) { return st, nil }
func (k *kernel) Gather(cgroup.Path) (cgroup.Gathered, error) { return cgroup.Gathered{}, nil }
func (k *kernel) Usage(cgroup.Path) (time.Duration, error)    { return 0, nil }
func (k *kernel) Rest()                                       {}

// world is a node with one container, which has exclusive CPUs 4-5.
type world struct {
	*appfiles.Files
	kernel kernel
	plan   pools.Plan
	wants  []cgroup.Target
	now    time.Time

	// Of the last job.
	entries []appcpus.Entry
	whole   bool
}

func newWorld(t *testing.T) *world {
	t.Helper()
	n := nodefixture.New(t, nodefixture.Spec{})
	n.YAML = nodefixture.PoolsYAML
	c, err := n.Config()
	s := new(desired.Settings)
	if err == nil {
		_, err = s.Begin(c, n.CPUs.Now(), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	w := &world{now: time.Unix(1000, 0), wants: []cgroup.Target{{Container: "1", Path: path, CPUs: cpuset.Range(4, 5)}}}
	w.plan = pools.Plan{Shared: cpuset.Range(2, 3), Pods: []pools.PodPlan{{UID: "u", Namespace: "ran", Name: "du", Containers: []pools.Placement{
		{ID: "1", Name: "app", Pool: pools.Guaranteed, Exclusive: true, CPUs: cpuset.Range(4, 5)},
		{ID: "2", Name: "other", Pool: pools.Other},
	}}}}
	m := inventory.New(cgroup.DriverSystemd)
	m.PutPod(lookup.PodStatus{Pod: cri.Pod{ID: "p", UID: "u", Name: "du", Namespace: "ran"}})
	log := slog.New(slog.DiscardHandler)
	w.Files = appfiles.New(appfiles.Sources{Settings: s, Objects: m.Objects(), Cache: kernelstate.New(&w.kernel, log), Log: log},
		func(entries []appcpus.Entry, whole bool) appcpus.Result {
			w.entries, w.whole = entries, whole
			return appcpus.Result{}
		})
	w.read(cpuset.Range(4, 5))
	return w
}

// read reads the cgroup with other CPUs.
func (w *world) read(cpus cpuset.Set) {
	w.kernel.state = cgroup.State{Path: path, CPUs: cpus, Effective: cpus, HasCPUSet: true, Populated: true, Quota: -1}
	w.Cache.Invalidate(path)
	w.Cache.Refresh(w.wants, w.Objects)
}

// write makes the job that is due, and passes the result on. It reports whether one was due.
func (w *world) write(r appcpus.Result) bool {
	job := w.Write(&w.plan, w.wants, w.now)
	if job == nil {
		return false
	}
	job()
	w.Take(r, w.now)
	return true
}

// TestWrite checks which entries are written, and that only changes are.
func TestWrite(t *testing.T) {
	w := newWorld(t)
	if !w.write(appcpus.Result{}) || w.whole {
		t.Error("the first job is missing, or compares all files")
	}
	want := []appcpus.Entry{{PodUID: "u", Pod: "ran/du", Container: "app", Pool: "guaranteed", CPUs: cpuset.Range(4, 5), Exclusive: true,
		Nodes: w.Settings.Nodes(cpuset.Range(4, 5)), SharedCPUs: cpuset.Range(2, 3), Verified: true}}
	if d := cmp.Diff(want, w.entries); d != "" {
		t.Errorf("entries (-want +got):\n%s", d)
	}
	if w.write(appcpus.Result{}) {
		t.Error("unchanged files are written again")
	}
	w.Recheck()
	if !w.write(appcpus.Result{}) || !w.whole {
		t.Error("no comparison of all files")
	}
	w.plan.Shared = cpuset.Of(3)
	if !w.write(appcpus.Result{}) || !w.entries[0].SharedCPUs.Equal(cpuset.Of(3)) {
		t.Errorf("a change of the shared pool is not written: %+v", w.entries)
	}
	w.wants[0].CPUs, w.plan.Pods[0].Containers[0].CPUs = cpuset.Range(6, 7), cpuset.Range(6, 7)
	if w.write(appcpus.Result{}) {
		t.Errorf("the file of a container that does not run on its CPUs yet is written: %+v", w.entries)
	}
	if w.read(cpuset.Range(6, 7)); !w.write(appcpus.Result{}) || !w.entries[0].CPUs.Equal(cpuset.Range(6, 7)) {
		t.Errorf("the file of a container that runs on its new CPUs is not written: %+v", w.entries)
	}
}

// TestFaults checks the retry, the problems and the source after errors.
func TestFaults(t *testing.T) {
	w := newWorld(t)
	if s, is := w.State(w.now); !is || s != telemetry.SourceOK {
		t.Errorf("source at the begin: %q, %t", s, is)
	}
	w.write(appcpus.Result{Again: true, Faults: []appcpus.Fault{{Entry: appcpus.Entry{PodUID: "u", Container: "app"}, Text: "is a FIFO"}}})
	if p := w.Problems(); len(p) != 1 || p[0].PodUID != "u" || p[0].Container != "app" || p[0].Text != "is a FIFO" || p[0].Code != "ApplicationFileFault" {
		t.Errorf("problems: %+v", p)
	}
	if w.write(appcpus.Result{}) {
		t.Error("a fault is retried at once")
	}
	w.plan.Shared = cpuset.Of(3)
	if !w.write(appcpus.Result{Again: true, Err: errors.New("read-only file system")}) {
		t.Error("a fault of one pod delays a change")
	}
	w.plan.Shared = cpuset.Of(2)
	if s, _ := w.State(w.now); s != telemetry.SourceLost || w.write(appcpus.Result{}) {
		t.Errorf("after an error of all files: source %q, or they are retried at once", s)
	}
	w.now = w.Retry()
	if !w.write(appcpus.Result{}) || !w.whole || !w.Retry().IsZero() || len(w.Problems()) > 0 {
		t.Error("no retry, or faults remain")
	}
}

// TestTimeout checks that a job which hangs keeps the daemon from being ready for Timeout only, and
// that the result ends the loss of the source.
func TestTimeout(t *testing.T) {
	w := newWorld(t)
	job := w.Write(&w.plan, w.wants, w.now)
	if job == nil || !w.Due().Equal(w.now.Add(appfiles.Timeout)) || !w.ChangesNothing(job(), w.now) {
		t.Errorf("the job ends at %v, or its result changes something", w.Due())
	}
	w.plan.Shared = cpuset.Of(3)
	if w.Write(&w.plan, w.wants, w.now) != nil {
		t.Error("two jobs at a time")
	}
	w.now = w.Due()
	if s, _ := w.State(w.now); s != telemetry.SourceLost || w.ChangesNothing(appcpus.Result{}, w.now) {
		t.Errorf("source %q after the timeout, or the late result changes nothing", s)
	}
	w.Take(appcpus.Result{}, w.now)
	if s, _ := w.State(w.now); s != telemetry.SourceOK || !w.Due().IsZero() || !w.write(appcpus.Result{}) {
		t.Error("the result does not end the loss, or the change is not written")
	}
}

// TestNoFiles checks that without a writer there are no files and no source.
func TestNoFiles(t *testing.T) {
	w := newWorld(t)
	f := appfiles.New(w.Sources, nil)
	if _, is := f.State(w.now); is || f.Write(&w.plan, w.wants, w.now) != nil {
		t.Error("files without a writer")
	}
}
