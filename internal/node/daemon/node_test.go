package daemon

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/preview"
	"github.com/cpupoold/cpupoold/internal/node/restore"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
)

// node is a fake node on which tests run a daemon.
type node struct {
	*nodefixture.Node
	clock *clock // of its daemons
}

func newNode(t testing.TB) *node {
	t.Helper()
	return newNodeOf(t, nodefixture.Spec{})
}

func newNodeOf(t testing.TB, s nodefixture.Spec) *node {
	t.Helper()
	return &node{nodefixture.New(t, s), new(clock)}
}

// newNodeOn returns a node with a kernel.
func newNodeOn(t testing.TB, kernel testnode.CgroupConfig) *node {
	t.Helper()
	return newNodeOf(t, nodefixture.Spec{Kernel: kernel})
}

// newNodeWith returns a node with a runtime.
func newNodeWith(t testing.TB, c testnode.RuntimeConfig) *node {
	t.Helper()
	return newNodeOf(t, nodefixture.Spec{Runtime: c})
}

func (n *node) options() Options {
	n.T.Helper()
	c, err := n.Config()
	if err != nil {
		n.T.Fatal(err)
	}
	return Options{Start: hostenv.Start{Config: c, Topology: n.CPUs.Now(), Reload: n.Config, Log: n.Logger()}, Clock: n.clock.now}
}

// preview returns the preview of the node with its present configuration and journal.
func (n *node) preview() preview.Preview {
	n.T.Helper()
	o, h := n.options(), n.Host()
	p, err := preview.OnHost(n.T.Context(), &h, o.Config, o.Topology, false, o.Log)
	if err != nil {
		n.T.Fatal(err)
	}
	return p
}

// restore restores the originals of the node's journal.
func (n *node) restore() (restore.Report, error) {
	h := n.Host()
	return restore.OnHost(n.T.Context(), &h, n.Journal(), config.IsolationCPUSet, false)
}

// running is a daemon on the node.
type running struct {
	*node
	loop   *Loop
	jobs   *jobs
	cancel func() // ends the daemon like a signal
	stop   func() // cancel, and waits

	resyncs time.Duration // the number of calls of resyncNow
}

// start runs a daemon until stop or the end of the test.
func (n *node) start() *running {
	n.T.Helper()
	return n.startOn(n.Host())
}

func (n *node) startOn(h hostenv.Host) *running {
	n.T.Helper()
	o := n.options()
	l, err := newLoop(h, o)
	if err != nil {
		n.T.Fatal(err)
	}
	return n.serve(l)
}

func (n *node) serve(l *Loop) *running {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	jobs, wait := startWorkers(ctx, l)
	go n.clock.run(ctx)
	go func() {
		defer close(done)
		l.serve(ctx)
		wait()
	}()
	r := &running{node: n, loop: l, jobs: jobs, cancel: cancel, stop: sync.OnceFunc(func() { cancel(); <-done })}
	n.T.Cleanup(r.stop)
	return r
}

// quiet waits until the daemon has nothing left to do.
func (r *running) quiet() {
	r.T.Helper()
	r.quietOr(func() bool { return false })
}

// quietOr is quiet, unless something else ends the wait.
func (r *running) quietOr(over func() bool) {
	r.T.Helper()
	met := 0 // twice, since a reply may arrive after the first question
	r.Eventually("all containers known, or denied", func() bool {
		if over() {
			return true
		}
		known := false
		r.inspect(func(l *Loop) { known = l.notices.Unidentified.IsEmpty() || r.jobs.queries() == 0 })
		if known {
			met++
		} else {
			met = 0
		}
		return met == 2
	})
	r.loop.box.Post(systemdReloaded{}) // read all cgroups again
	var started time.Time
	r.inspect(func(*Loop) { started = r.clock.now() }) // after the event: earlier passes do not count
	r.Eventually("daemon quiet", func() bool {
		r.skipPersistPause()
		v := r.loop.publisher.Metrics()
		return over() || v != nil && v.LastSuccess.After(started)
	})
}

// view waits for a view that satisfies cond.
func (r *running) view(what string, cond func(*telemetry.View) bool) {
	r.T.Helper()
	r.Eventually(what, func() bool {
		v := r.loop.publisher.Metrics()
		return v != nil && cond(v)
	})
}
