package daemon

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"time"

	"github.com/cpupoold/cpupoold/internal/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/podresources"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// hintPatience is how long a container waits for the kubelet's word on its devices
// before it gets CPUs without. The answer comes in milliseconds from a kubelet that
// is well: it admits devices before it creates the sandbox.
const hintPatience = 2 * time.Second

// hintSource is what the daemon needs of the kubelet; nil when it is not asked.
type hintSource interface {
	List(ctx context.Context) ([]podresources.Container, error)
}

// errNoKubelet means that there is no socket: nobody is asked, and nobody waits.
var errNoKubelet = errors.New("no kubelet serves PodResources here")

// kubelet is the real source.
type kubelet struct {
	*podresources.Client
	socket string
}

func (k kubelet) List(ctx context.Context) ([]podresources.Container, error) {
	if _, err := os.Stat(k.socket); errors.Is(err, fs.ErrNotExist) {
		return nil, errNoKubelet
	}
	return k.Client.List(ctx)
}

// hints are the NUMA nodes of containers' devices and memory, as the kubelet tells
// them. A container that is to get CPUs of its own waits for them in the shared
// pool, and nobody waits with it. They are asked for when the pod appears, so that
// its containers hardly ever do.
type hints struct {
	// known has the nodes by container, the empty set where there is no hint, and an
	// entry without a container's name for each pod that was asked for.
	known map[pools.Key]cpuset.Set
	// since is from when on a container, or a pod, waits.
	since  map[pools.Key]time.Time
	asking bool
	state  telemetry.SourceState // empty until the kubelet was asked, and without one
	off    bool                  // it will never answer
}

func newHints() *hints {
	return &hints{known: make(map[pools.Key]cpuset.Set), since: make(map[pools.Key]time.Time)}
}

// hinted is the answer of the kubelet to a question for these containers.
type hinted struct {
	keys       map[pools.Key]bool
	containers []podresources.Container
	err        error
}

// wait makes those wait that need hints and have none, and gives up on those that
// have waited long enough.
func (h *hints) wait(wanted map[pools.Key]bool, now time.Time) {
	maps.DeleteFunc(h.since, func(k pools.Key, _ time.Time) bool { return !wanted[k] })
	for k := range wanted {
		if _, known := h.known[k]; known {
			delete(h.since, k)
			continue
		}
		since, waits := h.since[k]
		switch {
		case !waits:
			h.since[k] = now
		case now.Sub(since) >= hintPatience:
			h.known[k] = cpuset.Set{}
			delete(h.since, k)
		}
	}
}

// next is when the first of those that wait has waited long enough.
func (h *hints) next() (time.Time, bool) {
	var first time.Time
	for _, since := range h.since {
		if due := since.Add(hintPatience); first.IsZero() || due.Before(first) {
			first = due
		}
	}
	return first, !first.IsZero()
}

// apply gives pods what is known, and says which of their containers wait.
func (h *hints) apply(pods []pools.Pod) {
	for i := range pods {
		for j := range pods[i].Containers {
			c := &pods[i].Containers[j]
			k := pools.Key{PodUID: pods[i].UID, Container: c.Name}
			c.Nodes = h.known[k]
			_, c.Waiting = h.since[k]
		}
	}
}

// forget drops what is known of pods that are gone.
func (h *hints) forget(there map[string]bool) {
	maps.DeleteFunc(h.known, func(k pools.Key, _ cpuset.Set) bool { return !there[k.PodUID] })
}

// wantHints are the containers that are to get CPUs of their own and have none, and
// their pods.
func wantHints(pods []pools.Pod, held []pools.Assignment) map[pools.Key]bool {
	has := make(map[pools.Key]bool, len(held))
	for _, a := range held {
		has[a.Key] = true
	}
	wanted := make(map[pools.Key]bool)
	for _, p := range pods {
		if p.Gone || p.QoS != pools.QoSGuaranteed {
			continue
		}
		if n, _ := p.Resources.WholeCPUs(); n > 0 && len(p.Containers) <= 1 {
			wanted[pools.Key{PodUID: p.UID}] = true // before its containers come
		}
		for _, c := range p.Containers {
			k := pools.Key{PodUID: p.UID, Container: c.Name}
			if c.Kind == pools.App && c.State != pools.Exited && !has[k] && exclusiveCPUs(c.Resources) > 0 {
				wanted[k] = true
			}
		}
	}
	return wanted
}

// exclusiveCPUs is the number of CPUs of its own that a container of a Guaranteed
// pod asks for; 0 if it asks for none or does not tell.
func exclusiveCPUs(r pools.Resources) int {
	const sharesPerCPU = 1024
	if n, known := r.WholeCPUs(); known && r.Shares%sharesPerCPU == 0 {
		return n
	}
	return 0
}

// askHints asks the kubelet if somebody waits for it. Only one question is under
// way at a time; who comes meanwhile is in the next.
func (l *loop) askHints(pods []pools.Pod, now time.Time) {
	if l.devices == nil || l.hints.off {
		return
	}
	l.hints.wait(wantHints(pods, l.assignments), now)
	if l.hints.asking || len(l.hints.since) == 0 {
		return
	}
	l.hints.asking = true
	keys := make(map[pools.Key]bool, len(l.hints.since))
	for k := range l.hints.since {
		keys[k] = true
	}
	l.asks.submit("hints", func(ctx context.Context) event {
		ctx, cancel := context.WithTimeout(ctx, hintPatience)
		defer cancel()
		found, err := l.devices.List(ctx)
		return hinted{keys: keys, containers: found, err: err}
	})
}

// apply takes the kubelet's answer over. Without one, those that have asked go on
// without hints.
func (e hinted) apply(l *loop) {
	h := l.hints
	h.asking = false
	l.judgeHints(e.err)
	for k := range e.keys {
		h.known[k] = cpuset.Set{}
	}
	uids := make(map[string]string) // namespace/name of pods that were asked for → UID
	for _, p := range l.model.pods {
		if e.keys[pools.Key{PodUID: p.uid}] || l.askedFor(e.keys, p.uid) {
			uids[p.pod.Namespace+"/"+p.pod.Name] = p.uid
		}
	}
	all := make(map[string]cpuset.Set) // by UID
	for _, c := range e.containers {
		uid, asked := uids[c.Namespace+"/"+c.Pod]
		if !asked {
			continue
		}
		all[uid] = all[uid].Union(c.Nodes)
		h.known[pools.Key{PodUID: uid, Container: c.Name}] = c.Nodes
		if c.Err != nil {
			l.log.Warn("hint is not complete", "pod", c.Namespace+"/"+c.Pod, "container", c.Name, "error", c.Err)
		}
		delete(e.keys, pools.Key{PodUID: uid, Container: c.Name})
	}
	for k := range e.keys {
		// An ordinary init container, which the kubelet does not list: what it has goes
		// to those that come after it.
		h.known[k] = all[k.PodUID]
	}
}

func (l *loop) askedFor(keys map[pools.Key]bool, uid string) bool {
	for k := range keys {
		if k.PodUID == uid {
			return true
		}
	}
	return false
}

// judgeHints says once when the kubelet stops answering, and when it answers again.
func (l *loop) judgeHints(err error) {
	h, before := l.hints, l.hints.state
	switch {
	case err == nil:
		h.state = telemetry.SourceOK
		if before == telemetry.SourceLost {
			l.log.Info("the kubelet tells NUMA nodes of devices and memory again")
		}
		return
	case errors.Is(err, errNoKubelet):
		h.state = ""
		return
	case errors.Is(err, podresources.ErrNotSupported):
		h.off = true
		clear(h.since)
	}
	h.state = telemetry.SourceLost
	if before != telemetry.SourceLost {
		l.log.Warn("the kubelet does not tell NUMA nodes of devices and memory; CPUs are chosen without", "error", err)
	}
}

// hint asks once and waits for the answer, for those who look and do not stay.
func (h *host) hint(ctx context.Context, to *hints, pods []pools.Pod, held []pools.Assignment) {
	wanted := wantHints(pods, held)
	if h.devices == nil || len(wanted) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, hintPatience)
	defer cancel()
	found, err := h.devices.List(ctx)
	if err != nil {
		return // the daemon would go on without, too
	}
	for _, c := range found {
		for _, p := range pods {
			if p.Namespace == c.Namespace && p.Name == c.Pod {
				to.known[pools.Key{PodUID: p.UID, Container: c.Name}] = c.Nodes
			}
		}
	}
}
