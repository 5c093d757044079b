package history

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func at(second int) time.Time { return time.Unix(1700000000+int64(second), 0).UTC() }

func TestLogIsBoundedInEvents(t *testing.T) {
	l := newLog(10, 1<<20)
	for i := range 1000 {
		l.Add(Event{Kind: Wrote, Value: fmt.Sprint(i), Time: at(i)})
	}
	s := l.Snapshot()
	if len(s.Events) != 10 || s.Events[0].Seq != 991 || s.Last() != 1000 || s.Dropped != 990 {
		t.Errorf("of 1000 events %d are kept, %d to %d, %d dropped; want 10, 991 to 1000, 990", len(s.Events), s.Events[0].Seq, s.Last(), s.Dropped)
	}
	if got := cap(l.events); got > 128 {
		t.Errorf("room for %d events is held; want no more than 128 for 10", got)
	}
}

func TestLogIsBoundedInBytes(t *testing.T) {
	l := newLog(1000, 20<<10)
	long := strings.Repeat("ä", 4096)
	for range 500 {
		l.Add(Event{Kind: Problem, Cause: long, Pod: long})
	}
	s := l.Snapshot()
	sum := 0
	for i := range s.Events {
		sum += s.Events[i].size()
	}
	if sum > 20<<10 || sum != l.bytes || len(s.Events) < 5 {
		t.Errorf("%d events of %d bytes are kept, counted as %d; want at most %d", len(s.Events), sum, l.bytes, 20<<10)
	}
	if got := s.Events[0].Cause; len(got) > maxText || !strings.HasSuffix(got, "ä…") {
		t.Errorf("a long text has become %d bytes: …%q", len(got), got[len(got)-8:])
	}
}

// TestSnapshotStays checks that a snapshot does not change while its log grows.
func TestSnapshotStays(t *testing.T) {
	l := newLog(50, 1<<20)
	var mu sync.Mutex
	newest := l.Snapshot()
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for seen := uint64(0); seen < 2000; {
				mu.Lock()
				s := newest
				mu.Unlock()
				for i, e := range s.Events {
					if e.Seq != s.Events[0].Seq+uint64(i) || e.Value != fmt.Sprint(e.Seq) {
						t.Errorf("event %d of a snapshot is %d with value %s", i, e.Seq, e.Value)
						return
					}
				}
				seen = s.Last()
				if seen < 2000 {
					<-s.Changed
				}
			}
		})
	}
	for i := range 2000 {
		l.Add(Event{Value: fmt.Sprint(i + 1)})
		mu.Lock()
		newest = l.Snapshot()
		mu.Unlock()
	}
	readers.Wait()
}

func TestSnapshotIsTheSameUntilSomethingHappens(t *testing.T) {
	l := New()
	l.Add(Event{})
	s := l.Snapshot()
	if again := l.Snapshot(); again != s {
		t.Error("there are two snapshots of the same")
	}
	select {
	case <-s.Changed:
		t.Error("a snapshot says that it is not the last; it is")
	default:
	}
	l.Add(Event{})
	if l.Snapshot() == s {
		t.Error("the snapshot lacks an event")
	}
	<-s.Changed
}

func TestSelect(t *testing.T) {
	l := New()
	for i, e := range []Event{
		{Kind: Started},
		{Kind: Placed, Pod: "ran/du-0", PodUID: "u1", Container: "du"},
		{Kind: Wrote, Pod: "ran/du-0", PodUID: "u1", Container: "du"},
		{Kind: Placed, Pod: "ran/du-0", PodUID: "u1", Container: "side"},
		{Kind: Placed, Unit: "du.service"},
		{Kind: Ended, Pod: "other/du-0", PodUID: "u2", Container: "du"},
	} {
		e.Time = at(i)
		l.Add(e)
	}
	s := l.Snapshot()
	for _, c := range []struct {
		name string
		q    Query
		want string
	}{
		{"all", Query{}, "1 2 3 4 5 6"},
		{"after", Query{After: 4}, "5 6"},
		{"after the last", Query{After: 6}, ""},
		{"after what never was", Query{After: 1 << 40}, ""},
		{"since", Query{Since: at(3)}, "4 5 6"},
		{"limit takes the latest", Query{Limit: 2}, "5 6"},
		{"pod", Query{About: "ran/du-0"}, "2 3 4"},
		{"pod of any namespace", Query{About: "du-0"}, "2 3 4 6"},
		{"UID", Query{About: "u1"}, "2 3 4"},
		{"container", Query{About: "ran/du-0/du"}, "2 3"},
		{"container of a pod of any namespace", Query{About: "du-0/du"}, "2 3 6"},
		{"container of a UID", Query{About: "u2/du"}, "6"},
		{"unit", Query{About: "du.service"}, "5"},
		{"nobody", Query{About: "du"}, ""},
		{"kind", Query{Kinds: []Kind{Placed, Started}}, "1 2 4 5"},
		{"all together", Query{Kinds: []Kind{Placed}, About: "u1", After: 2, Since: at(1), Limit: 5}, "4"},
	} {
		var got []string
		for _, e := range s.Select(c.q) {
			got = append(got, fmt.Sprint(e.Seq))
		}
		if diff := cmp.Diff(c.want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}
