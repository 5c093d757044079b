package daemon

import (
	"context"
	"time"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/refusal"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// stopTimeout is the time between the stop signal of a refused container and its end. It is
// short because the container has just started and has no data to save.
const stopTimeout = time.Second

// noteRefusals records the refusals of a plan. With onRefusal: fail it stops the refused
// containers.
func (l *Loop) noteRefusals(p pools.Plan, now time.Time) {
	fail := l.settings.Config.OnRefusal == config.RefusalFail && !l.Observes
	for _, k := range l.refusalLog.Note(p, fail, now) {
		// The queue of the cgroup's slow writes, so that no write follows the stop.
		l.workers.Updates.Submit(string(l.inventory.Objects().Container(k.ID).Path), func(ctx context.Context) event {
			ctx, cancel := context.WithTimeout(ctx, hostenv.UpdateTimeout)
			defer cancel()
			return refusedStopped{key: k, err: l.Runtime.Stop(ctx, k.ID, stopTimeout)}
		})
	}
}

// refusedStopped is the result of stopping a refused container.
type refusedStopped struct {
	key refusal.Key
	err error
}

func (e refusedStopped) apply(l *Loop) { l.refusalLog.NoteStop(e.key, e.err, l.now()) }
