package undo_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// TestSaving checks when writes wait for the disk, and when a save begins.
func TestSaving(t *testing.T) {
	now := time.Unix(100, 0)
	j := undo.Document{BootID: "boot"}.Journal()
	if _, _, due := j.BeginSave(now); due || j.Blocks() {
		t.Fatal("an unchanged journal is saved, or writes wait for it")
	}
	j.SetResting(cpuset.Of(3))
	if j.Blocks() || !j.Pending() {
		t.Error("writes wait for a change that is no original")
	}
	j.Originals.Note(undo.Original{Path: "a", File: cgroup.FileCPUs})
	d, upTo, due := j.BeginSave(now)
	if !due || len(d.Originals) != 1 || !d.Resting.Equal(cpuset.Of(3)) || !j.Blocks() {
		t.Fatalf("first save: %+v, due %t, writes wait %t", d, due, j.Blocks())
	}
	j.Originals.Note(undo.Original{Path: "b", File: cgroup.FileCPUs})
	if _, _, due := j.BeginSave(now); due {
		t.Error("a second save begins while the first is in progress")
	}
	j.EndSave(upTo, nil, now)
	if !j.Blocks() || j.Newest() == upTo {
		t.Error("writes go ahead without the second original")
	}
	_, upTo, _ = j.BeginSave(now)
	if j.StopWaiting(); j.Blocks() || j.Late() == nil || len(j.Problems("journal.json")) != 1 {
		t.Error("writes wait for a disk that hangs, or no problem reports it")
	}
	j.EndSave(upTo, errors.New("full"), now)
	if _, _, due := j.BeginSave(now); due || j.Blocks() || !j.NextRetry().After(now) {
		t.Error("a failed save is repeated at once, or writes wait for it")
	}
	_, upTo, due = j.BeginSave(j.NextRetry())
	if !due {
		t.Fatal("a failed save is not repeated")
	}
	j.EndSave(upTo, nil, now)
	if !j.Safe() || j.Pending() || j.Late() != nil || j.Problems("journal.json") != nil {
		t.Error("the journal is on disk, and writes or problems do not show it")
	}
}

// TestSetClaims checks that a change of claims makes a save due, and that equal claims make none due.
func TestSetClaims(t *testing.T) {
	now := time.Unix(100, 0)
	j := undo.Document{}.Journal()
	var saved []pools.Claim
	for _, c := range []struct {
		step string
		set  []pools.Claim
		due  bool
	}{
		{"first claim", []pools.Claim{{UID: "a", Parts: []pools.ClaimPart{{Device: "numa0", CPUs: 1}}}}, true},
		{"same claim", []pools.Claim{{UID: "a", Parts: []pools.ClaimPart{{Device: "numa0", CPUs: 1}}}}, false},
		{"container uses it", []pools.Claim{{UID: "a", Parts: []pools.ClaimPart{{Device: "numa0", CPUs: 1}}, Containers: []string{"app"}}}, true},
		{"another amount", []pools.Claim{{UID: "a", Parts: []pools.ClaimPart{{Device: "numa0", CPUs: 2}}, Containers: []string{"app"}}}, true},
		{"no claims", nil, true},
	} {
		j.SetClaims(c.set)
		d, upTo, due := j.BeginSave(now)
		if due {
			saved = d.Claims
			j.EndSave(upTo, nil, now)
		}
		if due != c.due || j.Blocks() || !slices.EqualFunc(saved, c.set, pools.Claim.Equal) || !slices.EqualFunc(j.Facts().Claims, c.set, pools.Claim.Equal) {
			t.Errorf("%s: save due %t, writes wait %t, file has %+v; want due %t, no wait and %+v", c.step, due, j.Blocks(), saved, c.due, c.set)
		}
	}
}

// TestDropOriginals checks that dropped originals stay on disk until the next save.
func TestDropOriginals(t *testing.T) {
	now := time.Unix(100, 0)
	j := undo.Document{Originals: []undo.Original{{Path: "gone", File: cgroup.FileCPUs}, {Path: "here", File: cgroup.FileCPUs}, {Path: "gone", Unit: "du.service", File: cgroup.FileCPUs}}}.Journal()
	gone := func(p cgroup.Path) bool { return p == "gone" }
	j.Originals.Drop(gone)
	if j.Pending() || j.Originals.Has("gone", cgroup.FileCPUs) {
		t.Error("dropping originals asks for a save, or keeps them")
	}
	j.Originals.Forget(gone)
	d, _, due := j.BeginSave(now)
	if !due || len(d.Originals) != 2 {
		t.Errorf("save after a resync: %+v, due %t; want the originals of here and of the unit", d, due)
	}
}
