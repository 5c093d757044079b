package numahints

import (
	"context"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/pkg/podresources"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Answer is the kubelet's answer to a question, or the error of the question.
type Answer struct {
	keys       map[pools.Key]bool // of the question
	containers []podresources.Container
	err        error
}

// Err returns the error of an answer that failed.
func (a Answer) Err() error { return a.err }

// Fetch asks the kubelet, for at most Timeout. It is safe for concurrent use.
func Fetch(ctx context.Context, h *hostenv.Host, keys map[pools.Key]bool) Answer {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	found, err := h.Devices.List(ctx)
	return Answer{keys, found, err}
}

// FetchOnce returns the hints for pods after one question. It serves callers without an
// event loop: containers whose policy allows it do not wait after that.
func FetchOnce(ctx context.Context, host *hostenv.Host, m *inventory.Objects, p pools.Pools, pods []pools.Pod, claims []pools.Claim, held []pools.Assignment) *Hints {
	h := New(nil)
	if host.Devices == nil {
		return h
	}
	now := time.Now()
	if keys, due := h.Ask(p, pods, claims, held, now); due {
		h.Take(Fetch(ctx, host, keys), m, now)
	}
	for k := range h.open {
		h.GoWithout(k)
	}
	return h
}

// podUIDs returns the UIDs of the pods that the question named, by namespace/name.
func (a Answer) podUIDs(m *inventory.Objects) map[string]string {
	asked := make(map[string]bool, len(a.keys))
	for k := range a.keys {
		asked[k.PodUID] = true
	}
	uids := make(map[string]string, len(asked))
	for p := range m.Pods() {
		if asked[p.UID] {
			uids[p.Pod.Namespace+"/"+p.Pod.Name] = p.UID
		}
	}
	return uids
}
