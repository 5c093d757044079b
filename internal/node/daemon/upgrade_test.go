package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/durable"
	"github.com/cpupoold/cpupoold/internal/node/restore"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestJournalOfAnEarlierBuild: testdata/journal has what earlier builds wrote, by their
// commit. This one reads it, and would write the same: so the earlier one reads ours.
func TestJournalOfAnEarlierBuild(t *testing.T) {
	want := undo.Document{
		BootID: "11111111-2222-4333-8444-555555555555",
		Originals: []undo.Original{
			{Path: "kubepods.slice/a.scope", File: cgroup.FileCPUs, Container: "a", Value: ""},
			{Path: "kubepods.slice/a.scope", File: cgroup.FileMax, Container: "a", Value: "200000 100000"},
			{Path: "system.slice/du.service", File: cgroup.FileCPUs, Unit: "du.service", Value: "0-1"},
		},
		Assignments: []undo.Assignment{
			{PodUID: "", Container: "du.service", CPUs: cpuset.Of(6)},
			{PodUID: "pod", Container: "app", CPUs: cpuset.Of(4, 5), Away: cpuset.Of(7)},
		},
		Unhinted: []undo.Owner{{PodUID: "pod", Container: "app"}},
		Resting:  cpuset.Of(3),
		Accepted: &undo.Accepted{Pools: "c0ffee", Present: cpuset.Range(0, 7), Online: cpuset.Range(0, 6)},
	}
	b, err := os.ReadFile("testdata/journal/51e8e3a.json")
	if err != nil {
		t.Fatal(err)
	}
	got, err := undo.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("journal (-written +read):\n%s", d)
	}
	again, err := undo.Encode(got)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(b), string(again)); d != "" {
		t.Errorf("the journal of a daemon with nothing new in it has another form (-earlier +now):\n%s\nraise journalVersion if the earlier one would misread it", d)
	}
}

// rewrite puts a journal of another version into the place of the node's.
func (n *node) rewrite(version int, change func(map[string]any)) {
	n.t.Helper()
	name := filepath.Join(n.dir, "journal.json")
	var f struct {
		Data json.RawMessage
	}
	b, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(b, &f)
	}
	var data map[string]any
	if err == nil {
		err = json.Unmarshal(f.Data, &data)
	}
	if err != nil {
		n.t.Fatal(err)
	}
	if change != nil {
		change(data)
	}
	if b, err = durable.Encode(version, data); err == nil {
		err = durable.Write(name, b)
	}
	if err != nil {
		n.t.Fatal(err)
	}
}

// TestUpgradeMovesNobody: a daemon that finds the journal of an older or a newer one
// moves nobody, whether it can read it or not. Originals are lost with one that it
// cannot read, and kept beside it.
func TestUpgradeMovesNobody(t *testing.T) {
	for name, c := range map[string]struct {
		version int
		change  func(map[string]any)
		aside   bool
	}{
		"the oldest version": {version: undo.OldestJournal},
		"more than this daemon knows": {version: undo.JournalVersion, change: func(data map[string]any) {
			data["novelty"] = map[string]any{"a": []int{1}}
			for _, key := range []string{"originals", "assignments"} {
				for _, record := range data[key].([]any) {
					record.(map[string]any)["novelty"] = "x"
				}
			}
		}},
		"a newer version": {version: undo.JournalVersion + 1, aside: true},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.yaml = carvedYAML // nothing but the record and the kernel tell whose CPUs are whose
			one := n.container(n.pod("one", "default", "guaranteed", 2, nil), "app", whole(2))
			two := n.container(n.pod("two", "default", "guaranteed", 1, nil), "app", whole(1))
			agent := n.container(n.pod("agent", "kube-system", "burstable", 0, management(map[string]int{"app": 512})), "app", cri.Resources{Shares: 102})
			before := n.dump()
			r := n.start()
			r.quiet()
			r.stop()
			placed, originals := n.dump(), n.journal().Originals
			if len(originals) == 0 || n.state(one).Effective.Len() != 2 || n.state(two).Effective.Len() != 1 || placed == before {
				t.Fatalf("nothing to upgrade\n%s", placed)
			}
			n.rewrite(c.version, c.change)

			r = n.start()
			r.quiet()
			if d := cmp.Diff(placed, n.dump()); d != "" {
				t.Errorf("somebody has moved (-before +after):\n%s", d)
			}
			n.runsOn(agent, "0-1")
			n.checkAll()
			r.stop()
			after, err := filepath.Glob(filepath.Join(n.dir, "journal.json.bad-*"))
			if err != nil {
				t.Fatal(err)
			}
			if aside := len(after) == 1; aside != c.aside {
				t.Errorf("journals set aside: %v; want one: %t", after, c.aside)
			}
			if c.aside {
				return
			}
			if d := cmp.Diff(originals, n.journal().Originals); d != "" {
				t.Errorf("originals (-before +after):\n%s", d)
			}
			h := n.host()
			if _, err := restore.HostRestore(&h, context.Background(), n.journal()); err != nil {
				t.Fatal(err)
			}
			if restored := strings.ReplaceAll(n.dump(), `cpus="0-7"`, `cpus=""`); restored != before {
				t.Errorf("restored by the other version (-before +after):\n%s", cmp.Diff(before, restored))
			}
		})
	}
}

// TestJournalVersions: which versions are read.
func TestJournalVersions(t *testing.T) {
	b, err := undo.Encode(sampleJournal())
	if err != nil {
		t.Fatal(err)
	}
	for version, read := range map[string]bool{"0": false, "1": true, "2": true, "3": false} {
		_, err := undo.Decode(bytes.Replace(b, []byte(`"version":2`), []byte(`"version":`+version), 1))
		if (err == nil) != read || err != nil && !errors.Is(err, undo.ErrBadJournal) {
			t.Errorf("version %s: %v; want it read: %t", version, err, read)
		}
	}
}
