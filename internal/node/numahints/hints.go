package numahints

import (
	"maps"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// HintPatience is how long a container waits for the kubelet's word on its devices
// before it gets CPUs without, or before it is a problem that it goes on waiting.
// The answer comes in milliseconds from a kubelet that is well: it admits devices
// before it creates the sandbox.
const HintPatience = 2 * time.Second

// CodeHints is the code of containers whose NUMA nodes the kubelet has not told.
const CodeHints pools.Code = "HintsMissing"

// Hints are the NUMA nodes of containers' devices and memory, as the kubelet tells
// them. A container that is to get CPUs of its own waits for them in the shared
// pool, and nobody waits with it: for as long as it takes under a topology policy
// that refuses other nodes, else until its patience ends. They are asked for when
// the pod appears, so that its containers hardly ever wait.
type Hints struct {
	// Known has the nodes by container, the empty set where there is no hint, and an
	// entry without a container's name for each pod that was asked for.
	Known map[pools.Key]cpuset.Set
	// Open are those, containers and pods, that the kubelet is to be asked for.
	Open map[pools.Key]*wish
	// without are the containers that went on without, until they are gone or the
	// answer has come before their CPUs. The journal has them too.
	without map[pools.Key]bool
	Asking  bool
	State   telemetry.SourceState // empty until the kubelet was asked, and without one
	Off     bool                  // it does not serve hints; it is asked again with the next listing
}

// wish is a question to the kubelet that has no answer yet.
type wish struct {
	since  time.Time
	Due    time.Time // when to ask again; zero for at once
	Strict bool      // no CPUs without an answer
	Alone  bool      // has gone on without
}

// New begins with those who went on without before.
func New(unhinted []pools.Key) *Hints {
	h := &Hints{Known: make(map[pools.Key]cpuset.Set), Open: make(map[pools.Key]*wish), without: make(map[pools.Key]bool)}
	for _, k := range unhinted {
		h.without[k] = true
	}
	return h
}

// Unhinted are those who went on without, sorted.
func (h *Hints) Unhinted() []pools.Key {
	return slices.SortedFunc(maps.Keys(h.without), inventory.CompareKeys)
}

// Follow brings the questions up to date with what wantHints has found, and lets
// those go on without that have waited long enough.
func (h *Hints) Follow(want, has map[pools.Key]bool, now time.Time) {
	maps.DeleteFunc(h.Open, func(k pools.Key, _ *wish) bool {
		_, still := want[k]
		return !still
	})
	maps.DeleteFunc(h.without, func(k pools.Key, _ bool) bool { return h.Open[k] == nil && !has[k] })
	for k, strict := range want {
		if _, known := h.Known[k]; known {
			delete(h.Open, k)
			continue
		}
		w := h.Open[k]
		if w == nil {
			w = &wish{since: now}
			h.Open[k] = w
		}
		w.Strict = strict
		switch {
		case strict:
			w.Alone = false
			delete(h.without, k)
		case h.Off || !w.Alone && w.Impatient(now):
			h.GoOn(k, w)
		}
	}
}

// GoOn lets a container have CPUs without a hint.
func (h *Hints) GoOn(k pools.Key, w *wish) {
	if w.Alone = true; k.Container != "" {
		h.without[k] = true
	}
}

func (w *wish) Impatient(now time.Time) bool { return now.Sub(w.since) >= HintPatience }

// Overdue says that a container waits for its hints, and has for too long.
func (h *Hints) Overdue(k pools.Key, now time.Time) bool {
	w := h.Open[k]
	return w != nil && !w.Alone && w.Impatient(now)
}

// Next calls earlier with the times at which there is something to do.
func (h *Hints) Next(earlier func(time.Time)) {
	for _, w := range h.Open {
		if !w.Alone {
			earlier(w.since.Add(HintPatience))
		}
		if !h.Off {
			earlier(w.Due)
		}
	}
}

// Apply gives pods what is known, and says which of their containers wait.
func (h *Hints) Apply(pods []pools.Pod) {
	for i := range pods {
		for j := range pods[i].Containers {
			c := &pods[i].Containers[j]
			k := pools.Key{PodUID: pods[i].UID, Container: c.Name}
			c.Nodes = h.Known[k]
			w := h.Open[k]
			c.Waiting = w != nil && !w.Alone
		}
	}
}

// Forget drops what is known of pods that are gone.
func (h *Hints) Forget(there map[string]bool) {
	maps.DeleteFunc(h.Known, func(k pools.Key, _ cpuset.Set) bool { return !there[k.PodUID] })
	maps.DeleteFunc(h.without, func(k pools.Key, _ bool) bool { return !there[k.PodUID] })
}

// Problems are the containers that wait for too long, or have gone on without.
func (h *Hints) Problems(m *inventory.Inventory, now time.Time) []pools.Problem {
	var all []pools.Problem
	report := func(k pools.Key, text string) {
		if p := m.PodByUID(k.PodUID); p != nil {
			all = append(all, pools.Problem{PodUID: k.PodUID, Pod: p.Name(), Container: k.Container,
				Reason: pools.Reason{Code: CodeHints, Text: text}})
		}
	}
	for k, w := range h.Open {
		if k.Container != "" && w.Strict && w.Impatient(now) {
			report(k, "the kubelet does not tell the NUMA nodes of its devices and memory, which its topology policy demands; runs in the shared pool until it does")
		}
	}
	for k := range h.without {
		report(k, "the kubelet did not tell the NUMA nodes of its devices and memory in time; its CPUs are chosen without")
	}
	return all
}

// WantHints are the containers that are to get CPUs of their own and have none, and
// their pods, with whether only an answer will do; and who has CPUs already.
func WantHints(p pools.Pools, pods []pools.Pod, held []pools.Assignment) (want, has map[pools.Key]bool) {
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
		if c.Kind == pools.App && c.State != pools.Exited && !has[k] && inventory.ExclusiveCPUs(c.Resources) > 0 {
			of = append(of, k)
		}
	}
	return of
}
