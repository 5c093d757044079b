package daemon

import (
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/actor"
)

// TestIdleTimers checks that an idle daemon waits only for the resync.
func TestIdleTimers(t *testing.T) {
	n := newNode(t)
	n.runShared(4)
	n.YAML = strings.Replace(n.YAML, "resyncPeriod: 10m", "resyncPeriod: 30s", 1)
	r := n.start()
	r.quiet()
	r.awaitIdle()
	r.within(29*time.Second, "only the resync is due", func() (alone bool) {
		r.inspect(func(l *Loop) {
			now := l.now()
			t := &l.schedule
			alone = t.resync.Due.After(now)
			for _, other := range []actor.Deadline{t.heartbeat, t.retry, t.journal, t.delayed, t.recheck} {
				alone = alone && !other.Due.After(now)
			}
		})
		return alone
	})
}
