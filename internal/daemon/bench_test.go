package daemon

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// BenchmarkResync is what the daemon does at rest, once every resyncPeriod: list
// the runtime's 100 containers, read all their cgroups again, plan, compare. It
// counts the process's CPU time, that of the fake runtime and the fake cgroups
// with it; wall-clock time says nothing here.
func BenchmarkResync(b *testing.B) {
	n := newNode(b)
	for i := range 50 {
		uid := fmt.Sprintf("pod-%d", i)
		pod, res := "", cri.Resources{Shares: 102}
		switch {
		case i < 2:
			pod, res = n.pod(uid, "default", "guaranteed", 2, nil), whole(1)
		case i%5 == 0:
			pod = n.pod(uid, "kube-system", "burstable", 0, management(map[string]int{"a": 512, "b": 100}))
		default:
			pod = n.pod(uid, "default", "burstable", 0, nil)
		}
		n.container(pod, "a", res)
		n.container(pod, "b", res)
	}
	r := n.start()
	r.quiet()
	passes := func() (n uint64) {
		for _, count := range r.loop.snapshot.Load().Passes {
			n += count
		}
		return n
	}
	before := cpuTime(b)
	for b.Loop() {
		// One pass reads the tree again and asks for the list, one takes it over.
		done := passes() + 2
		r.loop.box.post(resync{})
		r.view("resync", func(*telemetry.View) bool { return passes() >= done })
	}
	b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
	b.ReportMetric(0, "ns/op")
}

// resync is the timer's: set from here, that one is set again by the owner when a
// listing ends that others have asked for.
type resync struct{}

func (resync) apply(l *loop) { l.list() }

// cpuTime is that of this process so far.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkCreate is the time from the runtime's question about a new container to the
// answer, with 500 containers on the node: p99 counts.
func BenchmarkCreate(b *testing.B) {
	for _, pool := range []string{"shared", "own"} {
		b.Run(pool, func(b *testing.B) {
			n := newNode(b)
			for i := range 250 {
				pod := n.pod(fmt.Sprintf("pod-%d", i), "default", "burstable", 0, nil)
				n.container(pod, "a", cri.Resources{Shares: 102})
				n.container(pod, "b", cri.Resources{Shares: 102})
			}
			r := n.start()
			r.quiet()
			a := r.asker()
			qos, res := "burstable", cri.Resources{Shares: 512}
			if pool == "own" {
				qos, res = "guaranteed", whole(2)
			}
			var took []time.Duration
			for i := 0; b.Loop(); i++ {
				p := ofPod(fmt.Sprintf("new-%d", i), "default", qos, int(res.Shares/1024), nil)
				c := a.container(p, "app", res)
				began := time.Now()
				a.mustCreate(p, c)
				took = append(took, time.Since(began))
				a.hooks.Remove(c.ID)
				a.hooks.RemovePod(p.ID)
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100]), "p99-ns")
		})
	}
}

// BenchmarkPass is what the owner does after each event, whomever it is about, with so many
// containers that run as they should: decide, compare, publish.
func BenchmarkPass(b *testing.B) {
	for _, containers := range []int{16, 100, 500, 1000} {
		n := newNode(b)
		for i := range containers / 2 {
			pod := n.pod(fmt.Sprintf("pod-%d", i), "default", "burstable", 0, nil)
			n.container(pod, "a", cri.Resources{Shares: 102})
			n.container(pod, "b", cri.Resources{Shares: 102})
		}
		r := n.start()
		r.quiet()
		for _, part := range []struct {
			name string
			do   func(l *loop)
		}{{"pass", (*loop).pass}, {"publish", (*loop).publish}} {
			b.Run(fmt.Sprintf("%dcontainers/%s", containers, part.name), func(b *testing.B) {
				b.ReportAllocs()
				done := make(chan struct{})
				r.loop.box.post(errand(func(l *loop) {
					for b.Loop() {
						part.do(l)
					}
					close(done)
				}))
				<-done
			})
		}
	}
}

// errand is something that the owner is to do.
type errand func(l *loop)

func (do errand) apply(l *loop) { do(l) }
