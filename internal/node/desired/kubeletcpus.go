package desired

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

// The codes of problems with the kubelet.
const (
	CodeKubeletUnread    pools.Code = "KubeletUnread"    // what it has decided is not known
	CodeKubeletNotStatic pools.Code = "KubeletNotStatic" // it gives nobody CPUs
	CodeKubeletUnheard   pools.Code = "KubeletUnheard"   // its writes cannot be changed while it makes them
)

// StaticKubelet are what is known of the kubelet's choice.
type StaticKubelet struct {
	Held   []pools.Assignment
	Shared cpuset.Set // its default set; empty if that is not known
	Policy string
	// Told says that an answer has come, of whatever kind; err is why nothing newer is
	// known, retry when it is asked for again.
	Told  bool
	Err   error
	Retry time.Time
	// Due says that there may be another answer by now; asking that one is under way.
	Due, Asking bool
}

// KubeletStatus is the kubelet's choice. If its file cannot be read, listed is what
// PodResources says.
type KubeletStatus struct {
	state   podresources.CPUState
	Err     error
	Listed  []podresources.Container
	ListErr error
}

func FetchKubelet(h *hostenv.Host, ctx context.Context) (e KubeletStatus) {
	ctx, cancel := context.WithTimeout(ctx, hostenv.CallTimeout)
	defer cancel()
	if e.state, e.Err = h.CPUManager.State(ctx); e.Err == nil {
		return e
	}
	if e.ListErr = hostenv.ErrNoKubelet; h.Devices != nil {
		e.Listed, e.ListErr = h.Devices.List(ctx)
	}
	return e
}

// Take takes an answer over. uidOf finds a pod by namespace and name.
func (k *StaticKubelet) Take(e KubeletStatus, uidOf func(namespace, name string) string) {
	if k.Err = e.Err; e.Err == nil {
		k.Policy, k.Shared = e.state.Policy, e.state.Default
		k.Held = make([]pools.Assignment, 0, len(e.state.Holdings))
		for _, h := range e.state.Holdings {
			k.Held = append(k.Held, pools.Assignment{Key: pools.Key{PodUID: h.PodUID, Container: h.Container}, CPUs: h.CPUs})
		}
		return
	}
	if e.ListErr != nil {
		return
	}
	if !k.Shared.IsEmpty() {
		k.Shared = k.Shared.Union(k.Has()) // what is given back goes there
	}
	k.Held = nil
	for _, c := range e.Listed {
		k.Shared = k.Shared.Difference(c.CPUs)
		if uid := uidOf(c.Namespace, c.Pod); uid != "" && !c.CPUs.IsEmpty() {
			k.Held = append(k.Held, pools.Assignment{Key: pools.Key{PodUID: uid, Container: c.Name}, CPUs: c.CPUs})
		}
	}
}

// AsKubelet makes originals of containers what a static kubelet would write now. What it
// asked for when it made them may be somebody's own by now, and it does not write again
// what it believes to be there. If its choice is not known they stay as they are.
func AsKubelet(h *hostenv.Host, ctx context.Context, all []undo.Original) ([]undo.Original, error) {
	placed := func(o undo.Original) bool { return o.File == cgroup.FileCPUs && o.Container != "" }
	if h.CPUManager == nil || !slices.ContainsFunc(all, placed) {
		return all, nil
	}
	ctx, cancel := context.WithTimeout(ctx, hostenv.CallTimeout)
	defer cancel()
	state, err := h.CPUManager.State(ctx)
	if err != nil {
		return all, fmt.Errorf("containers get back the CPUs that the kubelet asked for first, since it is not known which it would give them now: %w; restart the kubelet", err)
	}
	if state.Policy != Static || state.Default.IsEmpty() {
		return all, nil
	}
	all = slices.Clone(all)
	for i := range all {
		if placed(all[i]) {
			all[i].Value = state.Default.String()
		}
	}
	return all, nil
}

// Has are all CPUs that somebody has from the kubelet alone.
func (k *StaticKubelet) Has() cpuset.Set {
	var all cpuset.Set
	for _, a := range k.Held {
		all = all.Union(a.CPUs)
	}
	return all
}

// beside are the pools of a node on which the kubelet has chosen: what containers
// without CPUs of their own have is the shared pool.
func (k *StaticKubelet) beside(p pools.Pools, online cpuset.Set) pools.Pools {
	if shared := k.Shared.Intersection(online); p.Kubelet && !shared.IsEmpty() {
		p.Shared = shared
	}
	return p
}

// Static is the CPU manager policy with which the kubelet gives CPUs away.
const Static = "static"

// ReadKubelet is what the kubelet has chosen, for those who look and do not stay. A file
// that cannot be read is an error: they have nothing from before.
func ReadKubelet(h *hostenv.Host, ctx context.Context, m *inventory.Inventory) (k StaticKubelet, err error) {
	if h.CPUManager == nil {
		return k, nil
	}
	e := FetchKubelet(h, ctx)
	k.Take(e, m.UIDOf)
	if e.Err != nil && e.ListErr != nil {
		return k, errors.Join(e.Err, e.ListErr)
	}
	return k, e.Err
}
