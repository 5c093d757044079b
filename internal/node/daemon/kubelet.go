package daemon

import (
	"context"
	"errors"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/actor"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/numahints"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/podresources"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// askHints asks the kubelet if somebody waits for it. Only one question is under
// way at a time; who comes meanwhile is in the next.
func (l *Loop) askHints(pods []pools.Pod, now time.Time) {
	if l.Devices == nil {
		return
	}
	h := l.hints
	want, has := numahints.WantHints(l.settings.Pools, pods, l.assignments)
	h.Follow(want, has, now)
	keys := make(map[pools.Key]bool, len(h.Open))
	due := false
	for k, w := range h.Open {
		keys[k] = true
		due = due || !now.Before(w.Due)
	}
	if !due || h.Asking || h.Off {
		return
	}
	h.Asking = true
	l.Asks.Submit("hints", func(ctx context.Context) actor.Event {
		ctx, cancel := context.WithTimeout(ctx, numahints.HintPatience)
		defer cancel()
		found, err := l.Devices.List(ctx)
		return hintsArrived{numahints.Answer{Keys: keys, Containers: found, Err: err}}
	})
}

// hintsArrived is the event.
type hintsArrived struct{ numahints.Answer }

// apply takes the kubelet's answer over. Who has none is asked for again.
func (e hintsArrived) apply(l *Loop) {
	h, now := l.hints, time.Now()
	h.Asking = false
	nobody := errors.Is(e.Err, hostenv.ErrNoKubelet) && h.State == ""
	l.noteHintState(e.Err)
	if e.Err == nil {
		names := make(map[string]string) // namespace/name of pods that were asked for → UID
		for p := range l.inventory.Pods() {
			if e.Asked(p.UID) {
				names[p.Pod.Namespace+"/"+p.Pod.Name] = p.UID
			}
		}
		h.Take(e.Answer, names)
		for _, c := range e.Containers {
			if c.Err != nil && names[c.Namespace+"/"+c.Pod] != "" {
				l.log.Warn("hint is not complete", "pod", c.Namespace+"/"+c.Pod, "container", c.Name, "error", c.Err)
			}
		}
	}
	for k := range e.Keys {
		w := h.Open[k]
		if w == nil {
			continue
		}
		if w.Due = now.Add(numahints.HintPause); w.Alone || w.Impatient(now) {
			w.Due = now.Add(relistPause)
		}
		if nobody && !w.Strict {
			w.Alone = true // not a problem: there is no kubelet to give devices
		}
	}
}

// noteHintState says once when the kubelet stops answering, and when it answers again.
func (l *Loop) noteHintState(err error) {
	h, before := l.hints, l.hints.State
	if err == nil {
		h.State = telemetry.SourceOK
		if before == telemetry.SourceLost {
			l.log.Info("the kubelet tells NUMA nodes of devices and memory again")
		}
		return
	}
	if errors.Is(err, hostenv.ErrNoKubelet) && before == "" {
		return // else it is only being started anew
	}
	h.Off = errors.Is(err, podresources.ErrNotSupported)
	h.State = telemetry.SourceLost
	if before != telemetry.SourceLost {
		l.log.Warn("the kubelet does not tell NUMA nodes of devices and memory", "error", err)
	}
}
