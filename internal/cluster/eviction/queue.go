package eviction

import (
	"maps"
	"slices"
	"time"
)

// Limits of the pause after a refused eviction. It doubles with each refusal.
const (
	firstPause   = 10 * time.Second
	longestPause = 5 * time.Minute
)

// Queue holds the nodes that are pressed, since when, and the evictions that were tried
// there. The zero value is an empty queue. It is not safe for concurrent use.
type Queue struct {
	nodes map[string]*episode
}

// episode is one period during which a node is pressed.
type episode struct {
	since, served time.Time
	pods          map[string]*pause // by UID
}

// pause is the time during which a pod is not evicted. With a zero until it never ends.
type pause struct {
	until  time.Time
	length time.Duration
}

// Note replaces the pressed nodes. It forgets all about other nodes.
func (q *Queue) Note(pressed []string, now time.Time) {
	nodes := make(map[string]*episode, len(pressed))
	for _, name := range pressed {
		if nodes[name] = q.nodes[name]; nodes[name] == nil {
			nodes[name] = &episode{since: now, pods: make(map[string]*pause)}
		}
	}
	q.nodes = nodes
}

// Due returns the nodes that have been pressed for at least after. The node that was served
// longest ago is the first.
func (q *Queue) Due(after time.Duration, now time.Time) []string {
	due := slices.Sorted(maps.Keys(q.nodes))
	due = slices.DeleteFunc(due, func(name string) bool { return now.Sub(q.nodes[name].since) < after })
	slices.SortStableFunc(due, func(a, b string) int { return q.nodes[a].served.Compare(q.nodes[b].served) })
	return due
}

// Wanted reports whether a pod of a node may be evicted now: it is in no pause.
func (q *Queue) Wanted(node, uid string, now time.Time) bool {
	p := q.nodes[node].pods[uid]
	return p == nil || !p.until.IsZero() && !now.Before(p.until)
}

// Served records that an eviction was tried on a node. Other nodes come first then.
func (q *Queue) Served(node string, now time.Time) { q.nodes[node].served = now }

// Done records that a pod needs no further try while its node is pressed.
func (q *Queue) Done(node, uid string) { q.nodes[node].pods[uid] = &pause{} }

// Refused records a failed eviction of a pod. It reports whether it was the first one.
func (q *Queue) Refused(node, uid string, now time.Time) bool {
	p := q.nodes[node].pods[uid]
	first := p == nil
	if first {
		p = &pause{length: firstPause / 2}
		q.nodes[node].pods[uid] = p
	}
	p.length = min(2*p.length, longestPause)
	p.until = now.Add(p.length)
	return first
}
