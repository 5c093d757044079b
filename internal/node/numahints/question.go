package numahints

import (
	"maps"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// retryInterval is the pause between questions. After Timeout it is slowRetryInterval.
const (
	retryInterval     = 250 * time.Millisecond
	slowRetryInterval = 5 * time.Second
)

// question is a container or pod whose nodes the kubelet has not reported.
type question struct {
	since  time.Time
	due    time.Time // when to ask again; zero means now
	strict bool      // the topology policy allows no CPUs without an answer
	alone  bool      // the container continues without an answer
}

func (q *question) isOverdue(now time.Time) bool { return now.Sub(q.since) >= Timeout }

// Ask updates the open questions for the pods and returns their keys when the next question is
// due. The caller passes them to Fetch, and its answer to Take. Only one question is in
// progress at a time; the next one includes containers that appear until then.
func (h *Hints) Ask(p pools.Pools, pods []pools.Pod, claims []pools.Claim, held []pools.Assignment, now time.Time) (keys map[pools.Key]bool, due bool) {
	want, owners := wanted(p, pods, claims, held)
	h.follow(want, owners, now)
	for _, q := range h.open {
		due = due || !now.Before(q.due)
	}
	if !due || h.asking || h.off {
		return nil, false
	}
	h.asking = true
	keys = make(map[pools.Key]bool, len(h.open))
	for k := range h.open {
		keys[k] = true
	}
	return keys, true
}

// AskAgain allows questions to a kubelet that served no hints before.
func (h *Hints) AskAgain() { h.off = false }

// Lacks reports whether the NUMA nodes of a container of the pod count and are unknown.
func (h *Hints) Lacks(p pools.Pools, pod pools.Pod, claims []pools.Claim, held []pools.Assignment) bool {
	want, _ := wanted(p, []pools.Pod{pod}, claims, held)
	for k := range want {
		if _, known := h.known[k]; !known {
			return true
		}
	}
	return false
}

// GoWithout lets a container get CPUs without an answer, unless its policy needs one.
func (h *Hints) GoWithout(k pools.Key) {
	if q := h.open[k]; q != nil && !q.strict && !q.alone {
		h.goWithout(k, q)
	}
}

func (h *Hints) goWithout(k pools.Key, q *question) {
	if q.alone = true; k.Container != "" {
		h.without[k] = true
	}
}

// IsOverdue reports whether a container has waited longer than Timeout and still waits.
func (h *Hints) IsOverdue(k pools.Key, now time.Time) bool {
	q := h.open[k]
	return q != nil && !q.alone && q.isOverdue(now)
}

// Next calls earlier with each time at which a question changes.
func (h *Hints) Next(earlier func(time.Time)) {
	for _, q := range h.open {
		if !q.alone {
			earlier(q.since.Add(Timeout))
		}
		if !h.off {
			earlier(q.due)
		}
	}
}

// follow makes questions match want. After Timeout containers continue without an answer.
func (h *Hints) follow(want, owners map[pools.Key]bool, now time.Time) {
	maps.DeleteFunc(h.open, func(k pools.Key, _ *question) bool {
		_, still := want[k]
		return !still
	})
	maps.DeleteFunc(h.without, func(k pools.Key, _ bool) bool { return h.open[k] == nil && !owners[k] })
	for k, strict := range want {
		if _, known := h.known[k]; known {
			delete(h.open, k)
			continue
		}
		q := h.open[k]
		if q == nil {
			q = &question{since: now}
			h.open[k] = q
		}
		q.strict = strict
		switch {
		case strict:
			q.alone = false
			delete(h.without, k)
		case h.off || !q.alone && q.isOverdue(now):
			h.goWithout(k, q)
		}
	}
}

// wanted returns the containers that will get exclusive CPUs, and whether their policy requires an
// answer. owners hold exclusive CPUs, or share the CPUs of their pod.
func wanted(p pools.Pools, pods []pools.Pod, claims []pools.Claim, held []pools.Assignment) (want, owners map[pools.Key]bool) {
	owners = make(map[pools.Key]bool, len(held))
	for _, a := range held {
		owners[a.Key] = true
		for _, name := range a.Sharers {
			if a.Total == 0 || !a.CPUs.IsEmpty() {
				owners[pools.Key{PodUID: a.PodUID, Container: name}] = true
			}
		}
	}
	want = make(map[pools.Key]bool)
	if p.Guaranteed.IsEmpty() {
		return want, owners
	}
	for i := range pods {
		pod := &pods[i]
		if pod.Gone || pod.QoS != pools.QoSGuaranteed {
			continue
		}
		keys := keysOf(pod, claims, owners)
		if len(keys) == 0 {
			continue
		}
		policy := p.OptionsFor(pod).TopologyPolicy
		for _, k := range keys {
			if policy != allocate.None {
				// The question for a pod only saves time: its containers ask again.
				want[k] = k.Container != "" && (policy == allocate.Restricted || policy == allocate.SingleNUMANode)
			}
		}
	}
	return want, owners
}

// keysOf returns the containers with CPUs that depend on an answer. For a pod without containers it returns the pod. The scheduler has chosen
// the NUMA nodes of claims, so containers that use them do not depend on it. A pod with claims reserves no CPUs.
func keysOf(p *pools.Pod, claims []pools.Claim, owners map[pools.Key]bool) []pools.Key {
	var keys []pools.Key
	hasClaim := slices.ContainsFunc(claims, func(c pools.Claim) bool { return c.PodUID == p.UID })
	if n, _ := p.Resources.WholeCPUs(); n > 0 && len(p.Containers) <= 1 && !hasClaim {
		keys = append(keys, pools.Key{PodUID: p.UID})
	}
	for _, c := range p.Containers {
		k := pools.Key{PodUID: p.UID, Container: c.Name}
		usesClaim := hasClaim && slices.ContainsFunc(claims, func(claim pools.Claim) bool { return claim.UsedBy(p.UID, c.Name) })
		if c.Kind == pools.App && c.State != pools.Exited && !owners[k] && !usesClaim && c.Resources.ExclusiveCPUs() > 0 {
			keys = append(keys, k)
		}
	}
	return keys
}
