package daemon

import (
	"time"

	"github.com/cpupoold/cpupoold/internal/node/retry"
)

// errand is an event of a test that runs on the loop's goroutine. A full pass follows.
type errand func(l *Loop)

func (do errand) apply(l *Loop) { do(l) }

// unasked is an event of a test that runs on the loop's goroutine. No pass follows.
type unasked func(l *Loop)

func (unasked) scope(*Loop) scope { return scopeNone }

func (do unasked) apply(l *Loop) { do(l) }

// inspect runs do on the loop's goroutine, and waits until it returns. A full pass follows.
func (r *running) inspect(do func(*Loop)) {
	done := make(chan struct{})
	r.loop.box.Post(errand(func(l *Loop) {
		defer close(done) // also when do fails the test
		do(l)
	}))
	<-done
}

// inspectOnly is inspect without a pass.
func (r *running) inspectOnly(do func(*Loop)) {
	done := make(chan struct{})
	r.loop.box.Post(unasked(func(l *Loop) {
		defer close(done) // also when do fails the test
		do(l)
	}))
	<-done
}

// requestList lets the daemon list the runtime's pods and containers.
func (r *running) requestList() { r.loop.box.Post(errand((*Loop).list)) }

// resync lets the daemon do what it does when a resyncPeriod is over.
func (r *running) resync() { r.loop.box.Post(unasked(r.resyncNow)) }

// resyncNow makes a resync whose period is over. The timer stays as it is: the loop sets
// it again when a listing ends.
func (r *running) resyncNow(l *Loop) {
	r.resyncs++
	l.resync(l.now().Add(r.resyncs * l.settings.Config.ResyncPeriod))
}

// forgetDrift lets the daemon forget the reload of systemd that quiet pretends, and
// earlier conflicts and failures, so that the next external write is a case of its own.
func (r *running) forgetDrift() {
	r.loop.box.Post(errand(func(l *Loop) {
		l.drifts.Reloaded(time.Time{})
		*l.backoffs = *retry.New()
	}))
}
