// Package statickubelet holds the CPUs that a kubelet with the static policy has allocated.
// Fetch runs in a worker.
package statickubelet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/podresources"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// The codes of problems with a kubelet that allocates exclusive CPUs.
const (
	codeKubeletUnread    pools.Code = "KubeletUnread"    // its allocation is unknown
	codeKubeletNotStatic pools.Code = "KubeletNotStatic" // it allocates no exclusive CPUs
	codeKubeletUnheard   pools.Code = "KubeletUnheard"   // its writes take effect until they are repaired
)

const staticPolicy = "static"

const kubeletRetryInterval = 5 * time.Second

// Kubelet holds the allocation of a kubelet that allocates exclusive CPUs. An answer
// with an error does not discard it. The zero value is a kubelet that was never asked.
type Kubelet struct {
	held   []pools.Assignment
	shared cpuset.Set // the kubelet's default set; empty if unknown
	policy string
	known  bool  // an answer has come, with or without an error
	err    error // of the last answer
	retry  time.Time
	stale  bool // the allocation may have changed
	asking bool // a question is in progress
}

// Answer is the kubelet's allocation, from its state file, or else from PodResources.
type Answer struct {
	state     podresources.CPUState
	stateErr  error
	listed    []podresources.Container
	listedErr error
}

// Fetch reads the allocation of a static kubelet. It runs in a worker.
func Fetch(ctx context.Context, h *hostenv.Host) (a Answer) {
	ctx, cancel := context.WithTimeout(ctx, hostenv.CallTimeout)
	defer cancel()
	if a.state, a.stateErr = h.CPUManager.State(ctx); a.stateErr == nil {
		return a
	}
	if a.listedErr = podresources.ErrNoKubelet; h.Devices != nil {
		a.listed, a.listedErr = h.Devices.List(ctx)
	}
	return a
}

// Read returns the allocation of the kubelet for callers without an event loop. They
// have no earlier allocation, so an unreadable state file is an error.
func Read(ctx context.Context, h *hostenv.Host, m *inventory.Objects) (k Kubelet, err error) {
	if h.CPUManager == nil {
		return k, nil
	}
	a := Fetch(ctx, h)
	k.Take(a, m, time.Now())
	if a.stateErr != nil && a.listedErr != nil {
		return k, errors.Join(a.stateErr, a.listedErr)
	}
	return k, a.stateErr
}

// Invalidate notes that the allocation may have changed.
func (k *Kubelet) Invalidate() { k.stale = true }

// Ask reports whether the caller must call Fetch now, and Take with its answer. Only
// one question is in progress at a time.
func (k *Kubelet) Ask(now time.Time) bool {
	if k.asking || !k.stale && (k.retry.IsZero() || now.Before(k.retry)) {
		return false
	}
	k.asking, k.stale, k.retry = true, false, time.Time{}
	return true
}

// Next returns the time of the next question after an error, and zero without one.
func (k *Kubelet) Next() time.Time { return k.retry }

// Take records an answer. If only PodResources answers, CPUs that a container has released
// are shared CPUs. If there is no answer, the last known allocation stays in force.
func (k *Kubelet) Take(a Answer, m *inventory.Objects, now time.Time) {
	k.asking, k.known = false, true
	if k.err = a.stateErr; k.err == nil {
		k.policy, k.shared = a.state.Policy, a.state.Default
		k.held = make([]pools.Assignment, 0, len(a.state.Holdings))
		for _, h := range a.state.Holdings {
			k.held = append(k.held, pools.Assignment{Key: pools.Key{PodUID: h.PodUID, Container: h.Container}, CPUs: h.CPUs})
		}
		return
	}
	k.retry = now.Add(kubeletRetryInterval)
	if a.listedErr != nil {
		return
	}
	if !k.shared.IsEmpty() {
		k.shared = k.shared.Union(k.CPUs())
	}
	k.held = nil
	for _, c := range a.listed {
		k.shared = k.shared.Difference(c.CPUs)
		if uid := m.UIDOf(c.Namespace, c.Pod); uid != "" && !c.CPUs.IsEmpty() {
			k.held = append(k.held, pools.Assignment{Key: pools.Key{PodUID: uid, Container: c.Name}, CPUs: c.CPUs})
		}
	}
}

// IsKnown reports whether a first answer was recorded, with or without an error.
func (k *Kubelet) IsKnown() bool { return k.known }

// Err returns the reason why the allocation may be outdated.
func (k *Kubelet) Err() error { return k.err }

// Held returns the allocation. It shares the memory of k.
func (k *Kubelet) Held() []pools.Assignment { return k.held }

// Shared returns the kubelet's default set, or an empty set if it is unknown.
func (k *Kubelet) Shared() cpuset.Set { return k.shared }

// CPUs returns all CPUs that the kubelet has allocated exclusively.
func (k *Kubelet) CPUs() cpuset.Set {
	var all cpuset.Set
	for _, a := range k.held {
		all = all.Union(a.CPUs)
	}
	return all
}

// Problems returns the problems with the kubelet. hasNRI reports whether the runtime asks
// the daemon before it applies the kubelet's writes to management pods.
func (k *Kubelet) Problems(hasNRI bool) []pools.Problem {
	if !k.known {
		return nil
	}
	var all []pools.Problem
	report := func(code pools.Code, text string) {
		all = append(all, pools.Problem{Unit: "kubelet", Reason: pools.Reason{Code: code, Text: text}})
	}
	switch {
	case k.err != nil:
		report(codeKubeletUnread, "its allocation of CPUs is unknown or outdated: "+k.err.Error()+"; the last known one stays in force; check that kubeletStateDir is the kubelet's state directory")
	case k.policy != staticPolicy:
		report(codeKubeletNotStatic, "its CPU manager policy is "+k.policy+": no container gets exclusive CPUs; set cpuManagerPolicy: static, or remove guaranteed.exclusive and restart the daemon")
	}
	if !hasNRI {
		report(codeKubeletUnheard, "the runtime does not ask over NRI: writes of the kubelet to management pods are repaired afterwards only; enable NRI in the runtime")
	}
	return all
}

// Originals returns the originals with the CPUs that a static kubelet would write to
// its containers now, and crun to their inner cgroups. The recorded ones may belong to another
// container now, and the kubelet repeats no write that it has made. If the allocation is unknown,
// it returns the originals unchanged, with an error.
func Originals(ctx context.Context, h *hostenv.Host, all []undo.Original) ([]undo.Original, error) {
	isPlaced := func(o undo.Original) bool {
		return o.File == cgroup.FileCPUs && (o.Container != "" || o.Path.Scope() != o.Path)
	}
	if h.CPUManager == nil || !slices.ContainsFunc(all, isPlaced) {
		return all, nil
	}
	ctx, cancel := context.WithTimeout(ctx, hostenv.CallTimeout)
	defer cancel()
	state, err := h.CPUManager.State(ctx)
	if err != nil {
		return all, fmt.Errorf("containers get back the CPUs that the kubelet requested first, because its current allocation is unknown: %w; restart the kubelet", err)
	}
	if state.Policy != staticPolicy || state.Default.IsEmpty() {
		return all, nil
	}
	all = slices.Clone(all)
	for i := range all {
		if isPlaced(all[i]) {
			all[i].Value = state.Default.String()
		}
	}
	return all, nil
}
