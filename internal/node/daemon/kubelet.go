package daemon

import (
	"context"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/numahints"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// askHints asks the kubelet for the NUMA nodes of containers that wait for them.
func (l *Loop) askHints(pods []pools.Pod, now time.Time) {
	if l.Devices == nil {
		return
	}
	if keys, due := l.hints.Ask(l.settings.Pools, pods, l.assignments, now); due {
		l.workers.Queries.Submit("hints", func(ctx context.Context) event { return hintsArrived{numahints.Fetch(ctx, &l.Host, keys)} })
	}
}

// hintsArrived is the event of an answer to askHints.
type hintsArrived struct{ numahints.Answer }

func (hintsArrived) scope(*Loop) scope { return scopeAll }

func (e hintsArrived) apply(l *Loop) {
	before := l.hints.State()
	incomplete := l.hints.Take(e.Answer, l.inventory, l.now())
	switch state := l.hints.State(); {
	case state == telemetry.SourceOK && before == telemetry.SourceLost:
		l.log.Info("the kubelet reports NUMA nodes of devices and memory again")
	case state == telemetry.SourceLost && before != telemetry.SourceLost:
		l.log.Warn("the kubelet does not report NUMA nodes of devices and memory", "error", e.Err())
	}
	for _, c := range incomplete {
		l.log.Warn("hint is not complete", "pod", c.Namespace+"/"+c.Pod, "container", c.Name, "error", c.Err)
	}
}

// askKubelet reads the kubelet's choice, if it may be another. One question is under
// way at a time.
func (l *Loop) askKubelet(now time.Time) {
	k := &l.kubelet
	if l.CPUManager == nil || k.Asking || !k.Due && (k.Retry.IsZero() || now.Before(k.Retry)) {
		return
	}
	k.Asking, k.Due, k.Retry = true, false, time.Time{}
	l.workers.Queries.Submit("kubelet", func(ctx context.Context) event { return kubeletArrived{desired.FetchKubelet(&l.Host, ctx)} })
}

// kubeletArrived is the event.
type kubeletArrived struct{ desired.KubeletStatus }

func (kubeletArrived) scope(*Loop) scope { return scopeAll }

func (e kubeletArrived) apply(l *Loop) {
	k := &l.kubelet
	before := k.Err
	k.Asking, k.Told = false, true
	k.Take(e.KubeletStatus, l.inventory.UIDOf)
	if k.Err != nil {
		k.Retry = l.now().Add(relistPause)
	}
	switch {
	case k.Err != nil && (before == nil || before.Error() != k.Err.Error()):
		l.log.Warn("what CPUs the kubelet has given away is not known for certain", "error", k.Err)
	case k.Err == nil && before != nil:
		l.log.Info("the kubelet's CPUs are known again")
	}
}

// kubeletProblems are those with the kubelet as a manager of CPUs.
func (l *Loop) kubeletProblems() []pools.Problem {
	k := &l.kubelet
	if l.CPUManager == nil || !k.Told {
		return nil
	}
	var all []pools.Problem
	report := func(code pools.Code, text string) {
		all = append(all, pools.Problem{Unit: "kubelet", Reason: pools.Reason{Code: code, Text: text}})
	}
	switch {
	case k.Err != nil:
		report(desired.CodeKubeletUnread, "what CPUs it has given away is not known for certain: "+k.Err.Error()+"; what was known before counts; see that kubeletStateDir is where the kubelet keeps its state")
	case k.Policy != desired.Static:
		report(desired.CodeKubeletNotStatic, "its CPU manager policy is "+k.Policy+": nobody gives containers CPUs of their own; set cpuManagerPolicy: static, or remove guaranteed.exclusive and restart the daemon")
	}
	if l.settings.Config.PlacesPods() && l.status.planned && l.status.nri != telemetry.SourceOK {
		text := "the runtime does not ask over NRI: what the kubelet writes to management pods is put right afterwards only; switch NRI on in the runtime"
		report(desired.CodeKubeletUnheard, text)
	}
	return all
}

func (kubeletArrived) ownResult() {}
