package account_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/schedwatch/account"
)

// TestBacklog checks that rows of earlier batches are kept when a later batch fails, and that the next reading
// returns them once.
func TestBacklog(t *testing.T) {
	type batch struct {
		keys []string
		last bool
		err  error
	}
	var batches []batch
	next := func(keys []string, rows []account.Row) (int, bool, error) {
		b := batches[0]
		batches = batches[1:]
		for i, k := range b.keys {
			keys[i], rows[i] = k, account.Row{Time: 10, Switches: 1, PID: uint32(len(batches)), TGID: 7}
		}
		return len(b.keys), b.last, b.err
	}
	broken := errors.New("broken")
	var backlog account.Backlog[string]
	batches = []batch{{keys: []string{"a", "b"}}, {keys: []string{"c"}, err: broken}}
	if rows, err := backlog.Drain(2, next); !errors.Is(err, broken) || rows != nil {
		t.Fatalf("rows %v, %v; want the error alone", rows, err)
	}
	batches = []batch{{keys: []string{"b"}, last: true}}
	rows, err := backlog.Drain(2, next)
	want := map[string]account.Row{
		"a": {Time: 10, Switches: 1, PID: 1, TGID: 7},
		"b": {Time: 20, Switches: 2, PID: 0, TGID: 7}, // both readings, with the last PID
		"c": {Time: 10, Switches: 1, PID: 0, TGID: 7},
	}
	if diff := cmp.Diff(want, rows); diff != "" || err != nil {
		t.Errorf("%v, rows after an error (-want +got):\n%s", err, diff)
	}
	batches = []batch{{last: true}}
	if rows, err := backlog.Drain(2, next); len(rows) != 0 || err != nil {
		t.Errorf("rows %v, %v; want none", rows, err)
	}
}

// TestBacklogIsBounded checks that readings that always fail keep a bounded number of rows, and count the others.
func TestBacklogIsBounded(t *testing.T) {
	var backlog account.Backlog[string]
	n, isBroken := 0, true
	next := func(keys []string, rows []account.Row) (int, bool, error) {
		for i := range keys {
			n++
			keys[i], rows[i] = fmt.Sprint(n), account.Row{Switches: 2}
		}
		if isBroken {
			return len(keys), false, errors.New("broken")
		}
		return len(keys), true, nil
	}
	for range 20 {
		_, _ = backlog.Drain(512, next)
	}
	isBroken = false
	rows, err := backlog.Drain(512, next)
	if err != nil || len(rows) >= n || uint64(2*(n-len(rows))) != backlog.Lost() {
		t.Errorf("%d of %d rows, %d switches lost, %v; want each row kept or lost", len(rows), n, backlog.Lost(), err)
	}
}

// TestWrapping checks that a count goes on when the kernel's 32 bits are full.
func TestWrapping(t *testing.T) {
	var w account.Wrapping
	for _, now := range []uint32{5, 1<<32 - 1, 3, 3} {
		w = w.At(now)
	}
	if w.Total != 1<<32+3 {
		t.Errorf("total %d; want %d", w.Total, uint64(1<<32+3))
	}
}

// TestWatches checks that a watch names its owner after a handover, and that old watches are forgotten.
func TestWatches(t *testing.T) {
	w := account.Watches{}
	w.Name(4, "nothing")
	w.Begin(4, 100)
	w.Name(4, "a")
	w.Begin(4, 200)
	w.Name(4, "b")
	w.Begin(5, 100)
	w.Name(5, "c")
	w.Name(5, "d") // the same watch
	for _, c := range []struct {
		cpu   int
		since uint64
		want  string
	}{{4, 100, "a"}, {4, 200, "b"}, {4, 150, ""}, {5, 100, "d"}, {6, 100, ""}} {
		if got := w.Owner(c.cpu, c.since); got != c.want {
			t.Errorf("owner of CPU %d in the watch since %d: %q; want %q", c.cpu, c.since, got, c.want)
		}
	}
	for i := range uint64(1000) {
		w.Begin(4, 1000+i)
	}
	if w.Owner(4, 200) != "" || len(w[4]) > 16 {
		t.Errorf("%d watches are remembered; want few", len(w[4]))
	}
}
