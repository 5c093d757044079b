package simulate

import (
	"cmp"
	"slices"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Refusal is a request that is not granted: for exclusive CPUs, for some of them, or for
// a workload type.
type Refusal struct {
	inspect.Problem

	// Then states the effect on the container.
	Then string `json:"then,omitempty"`
	// Since and Until are times of the trace; no Until means to the end.
	Since string `json:"since,omitempty"`
	Until string `json:"until,omitempty"`
}

// key identifies a refusal. Numbers in its text are no part of the key.
func (r *Refusal) key() string { return r.Name() + " " + r.Code }

// isRefusal reports whether a problem is a request that is not granted.
func isRefusal(code pools.Code) bool {
	return slices.Contains([]pools.Code{
		pools.CodeRefused, pools.CodeShort, pools.CodeNoGuaranteedPool, pools.CodeTypeUnknown, pools.CodeTargetInvalid, pools.CodeNamespaceNotListed, pools.CodeNamespaceUnknown,
		pools.CodeStaticNotAllowed, pools.CodeGuaranteedPod, pools.CodeMixedNotAllowed, pools.CodeOverrideNotAllowed, pools.CodeOverrideInvalid,
	}, code)
}

type refusals struct {
	all  []Refusal
	open map[string]int // index in all of each present refusal, by key
	at   string         // the trace's present time
}

// refusedNow returns the refusals of the present plan. A pod's UID limits them to the pod.
func refusedNow(n *Node, uid string) []Refusal {
	var all []Refusal
	for _, p := range n.plan.Problems {
		if !isRefusal(p.Code) || uid != "" && p.PodUID != uid {
			continue
		}
		r := Refusal{Problem: inspect.ProblemOf(p)}
		r.PodUID = "" // the name stands for the pod
		if p.Code == pools.CodeRefused && p.Container != "" {
			switch n.config.OnRefusal {
			case config.RefusalFail:
				r.Then = "it is not run (guaranteed.onRefusal is fail)"
			case config.RefusalAuto:
				r.Then = "where the runtime asks first (NRI) it is not run, else it runs in the shared pool"
			}
		}
		all = append(all, r)
	}
	for _, w := range n.pending { // for devices of ResourceClaims
		if uid == "" || w.pod.UID == uid {
			all = append(all, Refusal{Problem: inspect.Problem{Pod: w.pod.Name(), Code: w.why.Code, Text: w.why.Text}, Then: "the pod does not run on this node"})
		}
	}
	return all
}

func (r *refusals) note(now Refusal) {
	if _, there := r.open[now.key()]; there {
		return
	}
	if r.open == nil {
		r.open = make(map[string]int)
	}
	now.Since = r.at
	r.open[now.key()] = len(r.all)
	r.all = append(r.all, now)
}

// settle records the refusals after an event, and the ends of earlier refusals.
func (r *refusals) settle(n *Node) {
	still := make(map[string]bool)
	for _, now := range refusedNow(n, "") {
		still[now.key()] = true
		r.note(now)
	}
	for key, i := range r.open {
		if !still[key] {
			r.all[i].Until = cmp.Or(r.at, "its end")
			delete(r.open, key)
		}
	}
}
