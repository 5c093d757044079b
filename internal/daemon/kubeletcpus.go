package daemon

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/durable"
	"github.com/cpupoold/cpupoold/internal/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/podresources"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// # The CPUs of a static kubelet
//
// With guaranteed.exclusive: kubelet the kubelet says who has which CPUs. Its file is
// read whenever something has happened that may go with another choice: it writes the
// file before it asks the runtime for anything. Where the file cannot be understood,
// PodResources tells who has CPUs alone; where nothing can, what was last known stands.
// A file that is gone is no news: the kubelet is being given another policy, or its
// directory is not mounted.

// cpuManagerState is the kubelet's file, in its directory.
const cpuManagerState = "cpu_manager_state"

// cpuManagerLimit is far above any such file, in bytes.
const cpuManagerLimit = 16 << 20

// The codes of problems with the kubelet.
const (
	codeKubeletUnread    pools.Code = "KubeletUnread"    // what it has decided is not known
	codeKubeletNotStatic pools.Code = "KubeletNotStatic" // it gives nobody CPUs
	codeKubeletUnheard   pools.Code = "KubeletUnheard"   // its writes cannot be changed while it makes them
)

// cpuManager tells what the kubelet has decided; nil where it decides nothing.
type cpuManager interface {
	State(context.Context) (podresources.CPUState, error)
}

// stateLimit is how long the kubelet's file may take. The first pass waits for it, and a
// disk that hangs must not keep everybody from their CPUs.
const stateLimit = 5 * time.Second

// stateFile is the real one. It is asked by one goroutine at a time.
type stateFile struct {
	name string
	read func(name string, limit int64) ([]byte, error)
	// under is the read that was under way when it was last given up; nothing can end it
	// but the disk.
	under chan stateRead
}

type stateRead struct {
	content []byte
	err     error
}

func (f *stateFile) State(ctx context.Context) (podresources.CPUState, error) {
	ctx, cancel := context.WithTimeout(ctx, stateLimit)
	defer cancel()
	r, err := f.content(ctx)
	if err == nil {
		err = r.err
	}
	if err != nil {
		return podresources.CPUState{}, err
	}
	return podresources.ParseCPUState(r.content)
}

// content reads the file. What an earlier question has not waited for may be old, and is
// thrown away; before it has ended no other one is begun.
func (f *stateFile) content(ctx context.Context) (stateRead, error) {
	hangs := func() (stateRead, error) {
		return stateRead{}, fmt.Errorf("read %s: its disk does not answer: %w", f.name, ctx.Err())
	}
	if f.under != nil {
		select {
		case <-f.under:
		case <-ctx.Done():
			return hangs()
		}
	}
	f.under = make(chan stateRead, 1)
	go func(to chan<- stateRead) {
		b, err := f.read(f.name, cpuManagerLimit)
		to <- stateRead{b, err}
	}(f.under)
	select {
	case r := <-f.under:
		f.under = nil
		return r, nil
	case <-ctx.Done():
		return hangs()
	}
}

// managerOf is nil where cpupoold gives containers their CPUs.
func managerOf(c *config.Config) cpuManager {
	if !c.Pools.Guaranteed.Kubelet {
		return nil
	}
	return &stateFile{name: path.Join(c.KubeletStateDir, cpuManagerState), read: durable.Read}
}

// kubeletCPUs are what is known of the kubelet's choice.
type kubeletCPUs struct {
	held   []pools.Assignment
	shared cpuset.Set // its default set; empty if that is not known
	policy string
	// told says that an answer has come, of whatever kind; err is why nothing newer is
	// known, retry when it is asked for again.
	told  bool
	err   error
	retry time.Time
	// due says that there may be another answer by now; asking that one is under way.
	due, asking bool
}

// kubeletTold is the kubelet's choice. If its file cannot be read, listed is what
// PodResources says.
type kubeletTold struct {
	state   podresources.CPUState
	err     error
	listed  []podresources.Container
	listErr error
}

// askKubelet reads the kubelet's choice, if it may be another. One question is under
// way at a time.
func (l *loop) askKubelet(now time.Time) {
	k := &l.kubelet
	if l.manager == nil || k.asking || !k.due && (k.retry.IsZero() || now.Before(k.retry)) {
		return
	}
	k.asking, k.due, k.retry = true, false, time.Time{}
	l.asks.submit("kubelet", func(ctx context.Context) event { return kubeletArrived{l.lookAtKubelet(ctx)} })
}

func (h *host) lookAtKubelet(ctx context.Context) (e kubeletTold) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if e.state, e.err = h.manager.State(ctx); e.err == nil {
		return e
	}
	if e.listErr = errNoKubelet; h.devices != nil {
		e.listed, e.listErr = h.devices.List(ctx)
	}
	return e
}

// kubeletArrived is the event.
type kubeletArrived struct{ kubeletTold }

func (e kubeletArrived) apply(l *loop) {
	k := &l.kubelet
	before := k.err
	k.asking, k.told = false, true
	k.take(e.kubeletTold, l.model.uidOf)
	if k.err != nil {
		k.retry = time.Now().Add(relistPause)
	}
	switch {
	case k.err != nil && (before == nil || before.Error() != k.err.Error()):
		l.log.Warn("what CPUs the kubelet has given away is not known for certain", "error", k.err)
	case k.err == nil && before != nil:
		l.log.Info("the kubelet's CPUs are known again")
	}
}

// take takes an answer over. uidOf finds a pod by namespace and name.
func (k *kubeletCPUs) take(e kubeletTold, uidOf func(namespace, name string) string) {
	if k.err = e.err; e.err == nil {
		k.policy, k.shared = e.state.Policy, e.state.Default
		k.held = make([]pools.Assignment, 0, len(e.state.Holdings))
		for _, h := range e.state.Holdings {
			k.held = append(k.held, pools.Assignment{Key: pools.Key{PodUID: h.PodUID, Container: h.Container}, CPUs: h.CPUs})
		}
		return
	}
	if e.listErr != nil {
		return
	}
	if !k.shared.IsEmpty() {
		k.shared = k.shared.Union(k.has()) // what is given back goes there
	}
	k.held = nil
	for _, c := range e.listed {
		k.shared = k.shared.Difference(c.CPUs)
		if uid := uidOf(c.Namespace, c.Pod); uid != "" && !c.CPUs.IsEmpty() {
			k.held = append(k.held, pools.Assignment{Key: pools.Key{PodUID: uid, Container: c.Name}, CPUs: c.CPUs})
		}
	}
}

// asKubelet makes originals of containers what a static kubelet would write now. What it
// asked for when it made them may be somebody's own by now, and it does not write again
// what it believes to be there. If its choice is not known they stay as they are.
func (h *host) asKubelet(ctx context.Context, all []Original) ([]Original, error) {
	placed := func(o Original) bool { return o.File == cgroup.FileCPUs && o.Container != "" }
	if h.manager == nil || !slices.ContainsFunc(all, placed) {
		return all, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	state, err := h.manager.State(ctx)
	if err != nil {
		return all, fmt.Errorf("containers get back the CPUs that the kubelet asked for first, since it is not known which it would give them now: %w; restart the kubelet", err)
	}
	if state.Policy != static || state.Default.IsEmpty() {
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

// has are all CPUs that somebody has from the kubelet alone.
func (k *kubeletCPUs) has() cpuset.Set {
	var all cpuset.Set
	for _, a := range k.held {
		all = all.Union(a.CPUs)
	}
	return all
}

// beside are the pools of a node on which the kubelet has chosen: what containers
// without CPUs of their own have is the shared pool.
func (k *kubeletCPUs) beside(p pools.Pools, online cpuset.Set) pools.Pools {
	if shared := k.shared.Intersection(online); p.Kubelet && !shared.IsEmpty() {
		p.Shared = shared
	}
	return p
}

// uidOf is the UID of the newest pod of a name, "" if there is none.
func (m *model) uidOf(namespace, name string) string {
	var found *podEntry
	for _, e := range m.pods {
		if e.pod.Namespace == namespace && e.pod.Name == name && (found == nil || newer(e.pod, found.pod)) {
			found = e
		}
	}
	if found == nil {
		return ""
	}
	return found.uid
}

// kubeletProblems are those with the kubelet as a manager of CPUs.
func (l *loop) kubeletProblems() []pools.Problem {
	k := &l.kubelet
	if l.manager == nil || !k.told {
		return nil
	}
	var all []pools.Problem
	report := func(code pools.Code, text string) {
		all = append(all, pools.Problem{Unit: "kubelet", Reason: pools.Reason{Code: code, Text: text}})
	}
	switch {
	case k.err != nil:
		report(codeKubeletUnread, "what CPUs it has given away is not known for certain: "+k.err.Error()+"; what was known before counts; see that kubeletStateDir is where the kubelet keeps its state")
	case k.policy != static:
		report(codeKubeletNotStatic, "its CPU manager policy is "+k.policy+": nobody gives containers CPUs of their own; set cpuManagerPolicy: static, or remove guaranteed.exclusive and restart the daemon")
	}
	if l.settings.config.PlacesPods() && l.status.planned && l.status.nri != telemetry.SourceOK {
		text := "the runtime does not ask over NRI: what the kubelet writes to management pods is put right afterwards only; switch NRI on in the runtime"
		report(codeKubeletUnheard, text)
	}
	return all
}

// static is the CPU manager policy with which the kubelet gives CPUs away.
const static = "static"

// readKubelet is what the kubelet has chosen, for those who look and do not stay. A file
// that cannot be read is an error: they have nothing from before.
func (h *host) readKubelet(ctx context.Context, m *model) (k kubeletCPUs, err error) {
	if h.manager == nil {
		return k, nil
	}
	e := h.lookAtKubelet(ctx)
	k.take(e, m.uidOf)
	if e.err != nil && e.listErr != nil {
		return k, errors.Join(e.err, e.listErr)
	}
	return k, e.err
}
