package daemon

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/cpupoold/cpupoold/internal/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/podresources"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// hintPause is how soon a question that was not answered is asked again, as long as
// somebody's patience lasts; then it is relistPause.
const hintPause = 250 * time.Millisecond

// hintSource is what the daemon needs of the kubelet; nil when it is not asked.
type hintSource interface {
	List(ctx context.Context) ([]podresources.Container, error)
}

// errNoKubelet means that there is no socket. Where there has never been one, only
// those wait that may not have CPUs without a hint.
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

// hinted is the answer of the kubelet to a question for these containers and pods.
type hinted struct {
	keys       map[pools.Key]bool
	containers []podresources.Container
	err        error
}

// askHints asks the kubelet if somebody waits for it. Only one question is under
// way at a time; who comes meanwhile is in the next.
func (l *loop) askHints(pods []pools.Pod, now time.Time) {
	if l.devices == nil {
		return
	}
	h := l.hints
	want, has := wantHints(l.settings.pools, pods, l.assignments)
	h.follow(want, has, now)
	keys := make(map[pools.Key]bool, len(h.open))
	due := false
	for k, w := range h.open {
		keys[k] = true
		due = due || !now.Before(w.due)
	}
	if !due || h.asking || h.off {
		return
	}
	h.asking = true
	l.asks.submit("hints", func(ctx context.Context) event {
		ctx, cancel := context.WithTimeout(ctx, hintPatience)
		defer cancel()
		found, err := l.devices.List(ctx)
		return hintsArrived{hinted{keys: keys, containers: found, err: err}}
	})
}

// hintsArrived is the event.
type hintsArrived struct{ hinted }

// apply takes the kubelet's answer over. Who has none is asked for again.
func (e hintsArrived) apply(l *loop) {
	h, now := l.hints, time.Now()
	h.asking = false
	nobody := errors.Is(e.err, errNoKubelet) && h.state == ""
	l.judgeHints(e.err)
	if e.err == nil {
		names := make(map[string]string) // namespace/name of pods that were asked for → UID
		for _, p := range l.model.pods {
			if e.asked(p.uid) {
				names[p.pod.Namespace+"/"+p.pod.Name] = p.uid
			}
		}
		h.take(e.hinted, names)
		for _, c := range e.containers {
			if c.Err != nil && names[c.Namespace+"/"+c.Pod] != "" {
				l.log.Warn("hint is not complete", "pod", c.Namespace+"/"+c.Pod, "container", c.Name, "error", c.Err)
			}
		}
	}
	for k := range e.keys {
		w := h.open[k]
		if w == nil {
			continue
		}
		if w.due = now.Add(hintPause); w.alone || w.impatient(now) {
			w.due = now.Add(relistPause)
		}
		if nobody && !w.strict {
			w.alone = true // not a problem: there is no kubelet to give devices
		}
	}
}

func (e hinted) asked(uid string) bool {
	for k := range e.keys {
		if k.PodUID == uid {
			return true
		}
	}
	return false
}

// take notes the answer for those who asked, by the names of their pods. What is not
// in it the kubelet does not know yet, after its own start for instance.
func (h *hints) take(e hinted, names map[string]string) {
	all := make(map[string]cpuset.Set) // by UID
	for _, c := range e.containers {
		uid, asked := names[c.Namespace+"/"+c.Pod]
		if !asked {
			continue
		}
		all[uid] = all[uid].Union(c.Nodes)
		h.learn(pools.Key{PodUID: uid, Container: c.Name}, c.Nodes)
	}
	for k := range e.keys {
		nodes, there := all[k.PodUID]
		if _, known := h.known[k]; there && !known {
			// An ordinary init container, which the kubelet does not list: what it has goes
			// to those that come after it.
			h.learn(k, nodes)
		}
	}
}

func (h *hints) learn(k pools.Key, nodes cpuset.Set) {
	h.known[k] = nodes
	if h.open[k] != nil {
		delete(h.open, k)
		delete(h.without, k)
	}
}

// judgeHints says once when the kubelet stops answering, and when it answers again.
func (l *loop) judgeHints(err error) {
	h, before := l.hints, l.hints.state
	if err == nil {
		h.state = telemetry.SourceOK
		if before == telemetry.SourceLost {
			l.log.Info("the kubelet tells NUMA nodes of devices and memory again")
		}
		return
	}
	if errors.Is(err, errNoKubelet) && before == "" {
		return // else it is only being started anew
	}
	h.off = errors.Is(err, podresources.ErrNotSupported)
	h.state = telemetry.SourceLost
	if before != telemetry.SourceLost {
		l.log.Warn("the kubelet does not tell NUMA nodes of devices and memory", "error", err)
	}
}

// hint asks once and waits for the answer, for those who look and do not stay.
func (h *host) hint(ctx context.Context, to *hints, p pools.Pools, pods []pools.Pod, held []pools.Assignment) {
	want, has := wantHints(p, pods, held)
	if h.devices == nil || len(want) == 0 {
		return
	}
	to.follow(want, has, time.Time{})
	ctx, cancel := context.WithTimeout(ctx, hintPatience)
	defer cancel()
	e := hinted{keys: make(map[pools.Key]bool)}
	if e.containers, e.err = h.devices.List(ctx); e.err == nil {
		for k := range want {
			e.keys[k] = true
		}
		names := make(map[string]string)
		for _, p := range pods {
			if e.asked(p.UID) {
				names[p.Namespace+"/"+p.Name] = p.UID
			}
		}
		to.take(e, names)
	}
	for k, w := range to.open {
		if !w.strict {
			to.goOn(k, w) // as in the daemon when its patience has ended
		}
	}
}
