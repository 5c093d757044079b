package eviction

import (
	"maps"
	"slices"
	"time"
)

// How long a pod is left alone whose eviction was refused; the pause doubles.
const (
	firstPause   = 10 * time.Second
	longestPause = 5 * time.Minute
)

// Queue remembers since when nodes are pressed, and what was tried there. The zero value
// is one that knows of none. It is not safe for concurrent use.
type Queue struct {
	nodes map[string]*episode
}

// episode is a time in which a node is pressed.
type episode struct {
	since, served time.Time
	pods          map[string]*pause // by UID
}

// pause is until when a pod is left alone; never ends without until.
type pause struct {
	until  time.Time
	length time.Duration
}

// Note takes over which nodes are pressed. What is known of others is forgotten.
func (q *Queue) Note(pressed []string, now time.Time) {
	if q.nodes == nil {
		q.nodes = make(map[string]*episode)
	}
	maps.DeleteFunc(q.nodes, func(name string, _ *episode) bool { return !slices.Contains(pressed, name) })
	for _, name := range pressed {
		if q.nodes[name] == nil {
			q.nodes[name] = &episode{since: now, pods: make(map[string]*pause)}
		}
	}
}

// Due are the nodes that have been pressed for so long: the one whose turn it is first.
func (q *Queue) Due(after time.Duration, now time.Time) []string {
	due := slices.Sorted(maps.Keys(q.nodes))
	due = slices.DeleteFunc(due, func(name string) bool { return now.Sub(q.nodes[name].since) < after })
	slices.SortStableFunc(due, func(a, b string) int { return q.nodes[a].served.Compare(q.nodes[b].served) })
	return due
}

// Wanted says that a pod of a node is not to be left alone.
func (q *Queue) Wanted(node, uid string, now time.Time) bool {
	p := q.nodes[node].pods[uid]
	return p == nil || !p.until.IsZero() && !now.Before(p.until)
}

// Served notes that something was done on a node: the others come first now.
func (q *Queue) Served(node string, now time.Time) { q.nodes[node].served = now }

// Done notes that a pod needs no further try while its node is pressed.
func (q *Queue) Done(node, uid string) { q.nodes[node].pods[uid] = &pause{} }

// Refused notes that a pod could not be evicted, and says whether that is new.
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
