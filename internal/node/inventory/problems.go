package inventory

import (
	"fmt"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/pools"
)

// codeUnread is the code of objects that the runtime lists without the details that
// planning needs.
const codeUnread pools.Code = "RuntimeDetailsMissing"

// Problems returns a problem for each pod and container without details, sorted by id.
func (m *Inventory) Problems() []pools.Problem {
	var all []pools.Problem
	for _, id := range sortedWhere(m.pods, func(e *Pod) bool { return e.unlisted || e.err != nil }) {
		e := m.pods[id]
		p := pools.Problem{PodUID: e.UID, Pod: e.Name(), Reason: pools.Reason{Code: codeUnread}}
		if e.unlisted {
			p.Text = fmt.Sprintf("sandbox %s: %s", id, errUnlisted)
		} else {
			p.Text = e.err.Error()
		}
		all = append(all, p)
	}
	for _, id := range sortedWhere(m.containers, func(e *Container) bool { return e.err != nil }) {
		e := m.containers[id]
		p := pools.Problem{Container: e.Container.Name, Reason: pools.Reason{Code: codeUnread, Text: e.err.Error()}}
		if pod := m.PodOf(e); pod != nil {
			p.PodUID, p.Pod = pod.UID, pod.Name()
		}
		all = append(all, p)
	}
	return all
}

// sortedWhere returns the sorted keys of the entries for which is returns true.
func sortedWhere[E any](all map[string]E, is func(E) bool) (keys []string) {
	for key, e := range all {
		if is(e) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}
