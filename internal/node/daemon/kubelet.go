package daemon

import (
	"context"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/numahints"
	"github.com/cpupoold/cpupoold/internal/node/statickubelet"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// askHints asks the kubelet for the NUMA nodes of containers that wait for them.
func (l *Loop) askHints(keys map[pools.Key]bool) {
	l.workers.Queries.Submit("hints", func(ctx context.Context) event { return hintsArrived{numahints.Fetch(ctx, &l.Host, keys)} })
}

// hintsArrived is the event of an answer to askHints.
type hintsArrived struct{ numahints.Answer }

func (e hintsArrived) apply(l *Loop) {
	before := l.planner.Hints.State()
	incomplete := l.planner.Hints.Take(e.Answer, l.inventory.Objects(), l.now())
	switch state := l.planner.Hints.State(); {
	case state == telemetry.SourceOK && before == telemetry.SourceLost:
		l.log.Info("the kubelet reports NUMA nodes of devices and memory again")
	case state == telemetry.SourceLost && before != telemetry.SourceLost:
		l.log.Warn("the kubelet does not report NUMA nodes of devices and memory", "error", e.Err())
	}
	for _, c := range incomplete {
		l.log.Warn("hint is not complete", "pod", c.Namespace+"/"+c.Pod, "container", c.Name, "error", c.Err)
	}
}

// askKubelet reads the allocation of a static kubelet after it may have changed.
func (l *Loop) askKubelet(now time.Time) {
	if l.CPUManager != nil && l.planner.Kubelet.Ask(now) {
		l.workers.Queries.Submit("kubelet", func(ctx context.Context) event { return kubeletArrived{statickubelet.Fetch(ctx, &l.Host)} })
	}
}

// kubeletArrived is the event of an answer to askKubelet.
type kubeletArrived struct{ statickubelet.Answer }

func (kubeletArrived) ownResult() {}

func (e kubeletArrived) apply(l *Loop) {
	before := l.planner.Kubelet.Err()
	l.planner.Kubelet.Take(e.Answer, l.inventory.Objects(), l.now())
	switch err := l.planner.Kubelet.Err(); {
	case err != nil && (before == nil || before.Error() != err.Error()):
		l.log.Warn("the kubelet's allocation of CPUs is unknown or outdated", "error", err)
	case err == nil && before != nil:
		l.log.Info("the kubelet's allocation of CPUs is known again")
	}
}
