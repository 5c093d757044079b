package numahints

import (
	"context"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/podresources"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// HintPause is how soon a question that was not answered is asked again, as long as
// somebody's patience lasts; then it is relistPause.
const HintPause = 250 * time.Millisecond

// Answer is the answer of the kubelet to a question for these containers and pods.
type Answer struct {
	Keys       map[pools.Key]bool
	Containers []podresources.Container
	Err        error
}

func (e Answer) Asked(uid string) bool {
	for k := range e.Keys {
		if k.PodUID == uid {
			return true
		}
	}
	return false
}

// Take notes the answer for those who asked, by the names of their pods. What is not
// in it the kubelet does not know yet, after its own start for instance.
func (h *Hints) Take(e Answer, names map[string]string) {
	all := make(map[string]cpuset.Set) // by UID
	for _, c := range e.Containers {
		uid, asked := names[c.Namespace+"/"+c.Pod]
		if !asked {
			continue
		}
		all[uid] = all[uid].Union(c.Nodes)
		h.learn(pools.Key{PodUID: uid, Container: c.Name}, c.Nodes)
	}
	for k := range e.Keys {
		nodes, there := all[k.PodUID]
		if _, known := h.Known[k]; there && !known {
			// An ordinary init container, which the kubelet does not list: what it has goes
			// to those that come after it.
			h.learn(k, nodes)
		}
	}
}

func (h *Hints) learn(k pools.Key, nodes cpuset.Set) {
	h.Known[k] = nodes
	if h.Open[k] != nil {
		delete(h.Open, k)
		delete(h.without, k)
	}
}

// Hint asks once and waits for the answer, for those who look and do not stay.
func Hint(h *hostenv.Host, ctx context.Context, to *Hints, p pools.Pools, pods []pools.Pod, held []pools.Assignment) {
	want, has := WantHints(p, pods, held)
	if h.Devices == nil || len(want) == 0 {
		return
	}
	to.Follow(want, has, time.Time{})
	ctx, cancel := context.WithTimeout(ctx, HintPatience)
	defer cancel()
	e := Answer{Keys: make(map[pools.Key]bool)}
	if e.Containers, e.Err = h.Devices.List(ctx); e.Err == nil {
		for k := range want {
			e.Keys[k] = true
		}
		names := make(map[string]string)
		for _, p := range pods {
			if e.Asked(p.UID) {
				names[p.Namespace+"/"+p.Name] = p.UID
			}
		}
		to.Take(e, names)
	}
	for k, w := range to.Open {
		if !w.Strict {
			to.GoOn(k, w) // as in the daemon when its patience has ended
		}
	}
}
