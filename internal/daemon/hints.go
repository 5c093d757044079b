package daemon

import (
	"maps"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/telemetry"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// hintPatience is how long a container waits for the kubelet's word on its devices
// before it gets CPUs without, or before it is a problem that it goes on waiting.
// The answer comes in milliseconds from a kubelet that is well: it admits devices
// before it creates the sandbox.
const hintPatience = 2 * time.Second

// codeHints is the code of containers whose NUMA nodes the kubelet has not told.
const codeHints pools.Code = "HintsMissing"

// hints are the NUMA nodes of containers' devices and memory, as the kubelet tells
// them. A container that is to get CPUs of its own waits for them in the shared
// pool, and nobody waits with it: for as long as it takes under a topology policy
// that refuses other nodes, else until its patience ends. They are asked for when
// the pod appears, so that its containers hardly ever wait.
type hints struct {
	// known has the nodes by container, the empty set where there is no hint, and an
	// entry without a container's name for each pod that was asked for.
	known map[pools.Key]cpuset.Set
	// open are those, containers and pods, that the kubelet is to be asked for.
	open map[pools.Key]*wish
	// without are the containers that went on without, until they are gone or the
	// answer has come before their CPUs. The journal has them too.
	without map[pools.Key]bool
	asking  bool
	state   telemetry.SourceState // empty until the kubelet was asked, and without one
	off     bool                  // it does not serve hints; it is asked again with the next listing
}

// wish is a question to the kubelet that has no answer yet.
type wish struct {
	since  time.Time
	due    time.Time // when to ask again; zero for at once
	strict bool      // no CPUs without an answer
	alone  bool      // has gone on without
}

// newHints begins with those who went on without before.
func newHints(unhinted []pools.Key) *hints {
	h := &hints{known: make(map[pools.Key]cpuset.Set), open: make(map[pools.Key]*wish), without: make(map[pools.Key]bool)}
	for _, k := range unhinted {
		h.without[k] = true
	}
	return h
}

// unhinted are those who went on without, sorted.
func (h *hints) unhinted() []pools.Key {
	return slices.SortedFunc(maps.Keys(h.without), compareKeys)
}

// follow brings the questions up to date with what wantHints has found, and lets
// those go on without that have waited long enough.
func (h *hints) follow(want, has map[pools.Key]bool, now time.Time) {
	maps.DeleteFunc(h.open, func(k pools.Key, _ *wish) bool {
		_, still := want[k]
		return !still
	})
	maps.DeleteFunc(h.without, func(k pools.Key, _ bool) bool { return h.open[k] == nil && !has[k] })
	for k, strict := range want {
		if _, known := h.known[k]; known {
			delete(h.open, k)
			continue
		}
		w := h.open[k]
		if w == nil {
			w = &wish{since: now}
			h.open[k] = w
		}
		w.strict = strict
		switch {
		case strict:
			w.alone = false
			delete(h.without, k)
		case h.off || !w.alone && w.impatient(now):
			h.goOn(k, w)
		}
	}
}

// goOn lets a container have CPUs without a hint.
func (h *hints) goOn(k pools.Key, w *wish) {
	if w.alone = true; k.Container != "" {
		h.without[k] = true
	}
}

func (w *wish) impatient(now time.Time) bool { return now.Sub(w.since) >= hintPatience }

// overdue says that a container waits for its hints, and has for too long.
func (h *hints) overdue(k pools.Key, now time.Time) bool {
	w := h.open[k]
	return w != nil && !w.alone && w.impatient(now)
}

// next calls earlier with the times at which there is something to do.
func (h *hints) next(earlier func(time.Time)) {
	for _, w := range h.open {
		if !w.alone {
			earlier(w.since.Add(hintPatience))
		}
		if !h.off {
			earlier(w.due)
		}
	}
}

// apply gives pods what is known, and says which of their containers wait.
func (h *hints) apply(pods []pools.Pod) {
	for i := range pods {
		for j := range pods[i].Containers {
			c := &pods[i].Containers[j]
			k := pools.Key{PodUID: pods[i].UID, Container: c.Name}
			c.Nodes = h.known[k]
			w := h.open[k]
			c.Waiting = w != nil && !w.alone
		}
	}
}

// forget drops what is known of pods that are gone.
func (h *hints) forget(there map[string]bool) {
	maps.DeleteFunc(h.known, func(k pools.Key, _ cpuset.Set) bool { return !there[k.PodUID] })
	maps.DeleteFunc(h.without, func(k pools.Key, _ bool) bool { return !there[k.PodUID] })
}

// problems are the containers that wait for too long, or have gone on without.
func (h *hints) problems(m *model, now time.Time) []pools.Problem {
	var all []pools.Problem
	report := func(k pools.Key, text string) {
		if p := m.podOf(k.PodUID); p != nil {
			all = append(all, pools.Problem{PodUID: k.PodUID, Pod: p.name(), Container: k.Container,
				Reason: pools.Reason{Code: codeHints, Text: text}})
		}
	}
	for k, w := range h.open {
		if k.Container != "" && w.strict && w.impatient(now) {
			report(k, "the kubelet does not tell the NUMA nodes of its devices and memory, which its topology policy demands; runs in the shared pool until it does")
		}
	}
	for k := range h.without {
		report(k, "the kubelet did not tell the NUMA nodes of its devices and memory in time; its CPUs are chosen without")
	}
	return all
}

// podOf returns an entry of the pod with a UID, nil if there is none.
func (m *model) podOf(uid string) *podEntry {
	for _, e := range m.sandboxes[uid] {
		return e
	}
	return nil
}

// wantHints are the containers that are to get CPUs of their own and have none, and
// their pods, with whether only an answer will do; and who has CPUs already.
func wantHints(p pools.Pools, pods []pools.Pod, held []pools.Assignment) (want, has map[pools.Key]bool) {
	has = make(map[pools.Key]bool, len(held))
	for _, a := range held {
		has[a.Key] = true
	}
	want = make(map[pools.Key]bool)
	if p.Guaranteed.IsEmpty() {
		return want, has
	}
	for i := range pods {
		pod := &pods[i]
		if pod.Gone || pod.QoS != pools.QoSGuaranteed {
			continue
		}
		of := hintsOf(pod, has)
		if len(of) == 0 {
			continue
		}
		policy := p.OptionsFor(pod).TopologyPolicy
		for _, k := range of {
			if policy != allocate.None {
				// A pod's own question only comes early.
				want[k] = k.Container != "" && (policy == allocate.Restricted || policy == allocate.SingleNUMANode)
			}
		}
	}
	return want, has
}

// hintsOf are those of a pod, itself included, for whom hints would count.
func hintsOf(p *pools.Pod, has map[pools.Key]bool) []pools.Key {
	var of []pools.Key
	if n, _ := p.Resources.WholeCPUs(); n > 0 && len(p.Containers) <= 1 {
		of = append(of, pools.Key{PodUID: p.UID}) // before its containers come
	}
	for _, c := range p.Containers {
		k := pools.Key{PodUID: p.UID, Container: c.Name}
		if c.Kind == pools.App && c.State != pools.Exited && !has[k] && exclusiveCPUs(c.Resources) > 0 {
			of = append(of, k)
		}
	}
	return of
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
