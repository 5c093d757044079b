package eviction_test

import (
	"slices"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/cluster/eviction"
)

func TestQueueOfNodes(t *testing.T) {
	var q eviction.Queue
	begin := time.Unix(1_700_000_000, 0)
	at := func(second int) time.Time { return begin.Add(time.Duration(second) * time.Second) }
	due := func(second int, want ...string) {
		t.Helper()
		if got := q.Due(time.Minute, at(second)); !slices.Equal(got, want) {
			t.Errorf("due at second %d: %v, want %v", second, got, want)
		}
	}
	q.Note([]string{"b"}, at(0))
	q.Note([]string{"b", "a"}, at(30))
	due(59)
	due(60, "b")
	due(90, "a", "b")
	q.Served("a", at(90))
	due(90, "b", "a")
	q.Served("b", at(91))
	due(92, "a", "b")
	q.Note([]string{"a"}, at(92))
	q.Note([]string{"a", "b"}, at(93))
	due(94, "a") // b was not pressed for a moment
	due(153, "b", "a")
}

func TestQueueOfPods(t *testing.T) {
	var q eviction.Queue
	now := time.Unix(1_700_000_000, 0)
	q.Note([]string{"n"}, now)
	if !q.Wanted("n", "u", now) {
		t.Error("a new pod is in a pause")
	}
	for i, pause := range []time.Duration{10, 20, 40, 80, 160, 300, 300} {
		if first := q.Refused("n", "u", now); first != (i == 0) {
			t.Errorf("refusal %d is the first: %t; want %t", i+1, first, (i == 0))
		}
		if now = now.Add(pause*time.Second - 1); q.Wanted("n", "u", now) {
			t.Errorf("after refusal %d the pod has no pause of %d s", i+1, pause)
		}
		if now = now.Add(1); !q.Wanted("n", "u", now) {
			t.Errorf("after refusal %d the pod has a pause of more than %d s", i+1, pause)
		}
	}
	q.Done("n", "u")
	if q.Wanted("n", "u", now.Add(time.Hour)) || !q.Wanted("n", "v", now) {
		t.Error("a pod that is done is in no pause, or another pod is in one")
	}
	q.Note(nil, now)
	q.Note([]string{"n"}, now)
	if !q.Wanted("n", "u", now) {
		t.Error("a new episode has pods of the previous one")
	}
}
