package numahints

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/podresources"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Timeout is the maximum time that a container waits for an answer before it gets
// CPUs without one. A container whose topology policy requires an answer waits
// longer; from then on a problem reports it. A healthy kubelet answers in
// milliseconds, because it allocates devices before it creates the sandbox.
const Timeout = 2 * time.Second

const codeMissing pools.Code = "HintsMissing"

// Hints holds the NUMA nodes of the containers' devices and memory. A container that
// requests exclusive CPUs waits for them in the shared pool, and delays no other
// container. Hints asks when the pod appears, so that its containers rarely wait.
type Hints struct {
	known map[pools.Key]cpuset.Set // nodes by container; empty means no preference. A pod has no container
	open  map[pools.Key]*question
	// without contains the containers that continued without an answer. A container
	// leaves it when it ends, or when the answer arrives before its CPUs. The journal
	// holds these containers too.
	without map[pools.Key]bool
	asking  bool                  // a question is in progress
	state   telemetry.SourceState // empty before the first answer, and without a kubelet
	off     bool                  // the kubelet serves no hints; AskAgain resets it
}

// New returns Hints without answers. unhinted continued without one under an earlier daemon.
func New(unhinted []pools.Key) *Hints {
	h := &Hints{known: make(map[pools.Key]cpuset.Set), open: make(map[pools.Key]*question), without: make(map[pools.Key]bool)}
	for _, k := range unhinted {
		h.without[k] = true
	}
	return h
}

// Unhinted returns the containers that continued without an answer, sorted.
func (h *Hints) Unhinted() []pools.Key {
	return slices.SortedFunc(maps.Keys(h.without), pools.Key.Compare)
}

// State returns the state of the kubelet as a source of hints. It is empty before the
// first answer, and on a node without a kubelet.
func (h *Hints) State() telemetry.SourceState { return h.state }

// Take records an answer and schedules the questions that it leaves open. It returns the
// containers whose nodes the kubelet reports in part only.
func (h *Hints) Take(a Answer, m *inventory.Objects, now time.Time) (incomplete []podresources.Container) {
	h.asking = false
	noKubelet := errors.Is(a.err, podresources.ErrNoKubelet) && h.state == "" // a kubelet that has answered before only restarts
	switch {
	case a.err == nil:
		h.state = telemetry.SourceOK
		incomplete = h.learn(a, a.podUIDs(m))
	case !noKubelet: // without a kubelet, the state stays empty
		h.state, h.off = telemetry.SourceLost, errors.Is(a.err, podresources.ErrNotSupported)
	}
	for k := range a.keys {
		q := h.open[k]
		if q == nil {
			continue
		}
		q.due = now.Add(retryInterval)
		if q.alone || q.isOverdue(now) {
			q.due = now.Add(slowRetryInterval)
		}
		if noKubelet && !q.strict {
			q.alone = true // no problem: without a kubelet there are no devices
		}
	}
	return incomplete
}

// learn records nodes of pods. The kubelet may not know a container yet, as after a restart.
func (h *Hints) learn(a Answer, uids map[string]string) (incomplete []podresources.Container) {
	all := make(map[string]cpuset.Set) // by UID
	for _, c := range a.containers {
		uid, asked := uids[c.Namespace+"/"+c.Pod]
		if !asked {
			continue
		}
		if c.Err != nil {
			incomplete = append(incomplete, c)
		}
		all[uid] = all[uid].Union(c.Nodes)
		h.close(pools.Key{PodUID: uid, Container: c.Name}, c.Nodes)
	}
	for k := range a.keys {
		nodes, listed := all[k.PodUID]
		if _, known := h.known[k]; listed && !known {
			// The kubelet does not list ordinary init containers. Later containers of the
			// pod reuse their devices.
			h.close(k, nodes)
		}
	}
	return incomplete
}

func (h *Hints) close(k pools.Key, nodes cpuset.Set) {
	h.known[k] = nodes
	if h.open[k] != nil {
		delete(h.open, k)
		delete(h.without, k)
	}
}

// Apply sets the NUMA nodes of the pods' containers, and whether a container waits for them.
func (h *Hints) Apply(pods []pools.Pod) {
	for i := range pods {
		for j := range pods[i].Containers {
			c := &pods[i].Containers[j]
			k := pools.Key{PodUID: pods[i].UID, Container: c.Name}
			c.Nodes = h.known[k]
			q := h.open[k]
			c.Waiting = q != nil && !q.alone
		}
	}
}

// Forget drops the answers for pods whose UID is not in existing.
func (h *Hints) Forget(existing map[string]bool) {
	maps.DeleteFunc(h.known, func(k pools.Key, _ cpuset.Set) bool { return !existing[k.PodUID] })
	maps.DeleteFunc(h.without, func(k pools.Key, _ bool) bool { return !existing[k.PodUID] })
}

// Problems returns containers that wait longer than Timeout, or got no answer.
func (h *Hints) Problems(m *inventory.Objects, now time.Time) []pools.Problem {
	var all []pools.Problem
	report := func(k pools.Key, text string) {
		if p := m.PodByUID(k.PodUID); p != nil {
			all = append(all, pools.Problem{PodUID: k.PodUID, Pod: p.Name(), Container: k.Container,
				Reason: pools.Reason{Code: codeMissing, Text: text}})
		}
	}
	for k, q := range h.open {
		if k.Container != "" && q.strict && q.isOverdue(now) {
			report(k, "the kubelet does not report the NUMA nodes of its devices and memory, which its topology policy requires; runs in the shared pool until it does")
		}
	}
	for k := range h.without {
		report(k, "the kubelet did not report the NUMA nodes of its devices and memory in time; its CPUs are chosen without them")
	}
	return all
}
