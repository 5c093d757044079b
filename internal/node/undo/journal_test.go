package undo_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cpupoold/cpupoold/internal/node/durable"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/systemd"
)

func sampleJournal() undo.Document {
	return undo.Document{
		BootID: "boot-1",
		Originals: []undo.Original{
			{Path: "kubepods.slice/a.scope", File: cgroup.FileCPUs, Container: "a", Value: ""},
			{Path: "kubepods.slice/a.scope", File: cgroup.FileMax, Container: "a", Value: "200000 100000"},
		},
		Assignments: []pools.Assignment{
			{Key: pools.Key{PodUID: "pod", Container: "app"}, CPUs: cpuset.Of(4, 5)},
			{Key: pools.Key{PodUID: "shared"}, CPUs: cpuset.Of(6), Sharers: []string{"a", "b"}, Total: 2},
		},
		Unhinted: []pools.Key{{PodUID: "pod", Container: "app"}},
	}
}

// claimedJournal is sampleJournal with a prepared claim that has CPUs.
func claimedJournal() undo.Document {
	d := sampleJournal()
	d.Claims = []pools.Claim{{UID: "c1", Namespace: "ran", Name: "du", PodUID: "pod", Containers: []string{"app", "log"},
		Parts: []pools.ClaimPart{{Request: "cpus", Device: "numa0", ShareID: "s1", CPUs: 2}, {Request: "more", Device: "numa1", CPUs: 1}}}}
	d.Assignments = append(d.Assignments, pools.Assignment{Key: pools.Key{Container: "cpus|numa0|s1", Claim: "c1"}, CPUs: cpuset.Of(2), Away: cpuset.Of(3)})
	return d
}

// TestJournalRoundTrip checks that Load returns what Save wrote, and nothing of an earlier boot.
func TestJournalRoundTrip(t *testing.T) {
	name := filepath.Join(t.TempDir(), "state", "journal.json")
	want := claimedJournal()
	if err := (undo.File{Name: name}).Save(want); err != nil {
		t.Fatal(err)
	}
	got, note := undo.File{Name: name}.Load("boot-1", time.Now())
	if note != nil {
		t.Fatal(note)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("journal (-written +read):\n%s", d)
	}
	got, note = undo.File{Name: name}.Load("boot-2", time.Now())
	want = undo.Document{BootID: "boot-2", Claims: want.Claims, Assignments: want.Assignments[len(want.Assignments)-1:]}
	if d := cmp.Diff(want, got); note != nil || d != "" {
		t.Errorf("journal of an earlier boot: %v; want claims and their CPUs alone (-want +read):\n%s", note, d)
	}
}

// TestJournalOfVersion1 checks that an upgrade keeps the originals of a file without units.
func TestJournalOfVersion1(t *testing.T) {
	b, err := undo.Encode(sampleJournal())
	if err != nil {
		t.Fatal(err)
	}
	old := bytes.Replace(b, []byte(`{"version":2,`), []byte(`{"version":1,`), 1)
	if bytes.Equal(old, b) {
		t.Fatalf("journal begins with %.20s; want version 2", b)
	}
	got, err := undo.Decode(old)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(sampleJournal(), got); d != "" {
		t.Errorf("journal (-written +read):\n%s", d)
	}
}

// TestBadJournalIsSetAside checks that Load keeps a file that it cannot use.
func TestBadJournalIsSetAside(t *testing.T) {
	good, err := undo.Encode(sampleJournal())
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"empty":     {},
		"cut":       good[:len(good)/2],
		"flipped":   bytes.Replace(good, []byte("200000"), []byte("300000"), 1),
		"version":   bytes.Replace(good, []byte(`"version":2`), []byte(`"version":4`), 1),
		"version 0": bytes.Replace(good, []byte(`"version":2`), []byte(`"version":0`), 1),
		"not json":  []byte("\x00\x01\x02"),
		"too large": []byte(strings.Repeat(" ", 10) + "[]"),
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "journal.json")
			if err := os.WriteFile(file, content, 0o600); err != nil {
				t.Fatal(err)
			}
			j, note := undo.File{Name: file}.Load("boot-1", time.Unix(7, 0))
			if !errors.Is(note, undo.ErrDamaged) {
				t.Errorf("note = %v; want that the journal is damaged", note)
			}
			if len(j.Originals) != 0 || j.BootID != "boot-1" {
				t.Errorf("journal = %+v; want an empty one of this boot", j)
			}
			aside, err := os.ReadFile(file + ".bad-7")
			if err != nil || !bytes.Equal(aside, content) {
				t.Errorf("set aside = %q, %v; want the damaged file", aside, err)
			}
		})
	}
}

// TestFullDiskKeepsTheOldJournal checks that a failed save leaves the old file.
func TestFullDiskKeepsTheOldJournal(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "journal.json")
	if err := (undo.File{Name: name}).Save(sampleJournal()); err != nil {
		t.Fatal(err)
	}
	// A directory at the place of the new file makes the write fail.
	blocked := filepath.Join(dir, "blocked")
	if err := os.MkdirAll(filepath.Join(blocked, "journal.json", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := (undo.File{Name: filepath.Join(blocked, "journal.json")}).Save(undo.Document{}); err == nil {
		t.Error("no error although the journal could not be replaced")
	}
	if j, note := (undo.File{Name: name}).Load("boot-1", time.Now()); note != nil || len(j.Originals) != 2 {
		t.Errorf("old journal = %+v, %v", j, note)
	}
}

// FuzzDecodeJournal checks that decode returns errDamaged, or a document that can be encoded. Each
// input is a file, and also the data of a file with a correct checksum.
func FuzzDecodeJournal(f *testing.F) {
	for _, d := range []undo.Document{sampleJournal(), claimedJournal()} {
		file, err := undo.Encode(d)
		if err != nil {
			f.Fatal(err)
		}
		data, err := json.Marshal(d)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(file)
		f.Add(data)
	}
	f.Add([]byte(`{"version":1,"sha256":"","data":{}}`))
	f.Add([]byte(`{"version":1,"data":null}`))
	f.Add([]byte(`{"claims":[{"uid":"c","namespace":"n","name":"c","podUID":"p","parts":[{"request":"r","device":"numa0","cpus":9223372036854775808}]}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		checkDecode(t, b)
		if file, err := durable.Encode(3, json.RawMessage(b)); err == nil {
			checkDecode(t, file)
		}
	})
}

func checkDecode(t *testing.T, b []byte) {
	j, err := undo.Decode(b)
	if err != nil {
		if !errors.Is(err, undo.ErrDamaged) {
			t.Fatalf("error of another kind: %v", err)
		}
		return
	}
	if err := pools.CheckClaims(j.Claims); err != nil {
		t.Fatalf("claims out of bounds: %v", err)
	}
	again, err := undo.Encode(j)
	if err != nil {
		t.Fatal(err)
	}
	if j2, err := undo.Decode(again); err != nil || !cmp.Equal(j, j2, cmpopts.EquateEmpty()) {
		t.Fatalf("round trip: %+v, %v; want %+v", j2, err, j)
	}
}

// TestJournalOfAnEarlierBuild reads files that earlier builds wrote, named by commit. This
// build would write the same bytes, so that the earlier build reads its files.
func TestJournalOfAnEarlierBuild(t *testing.T) {
	want := undo.Document{
		BootID: "11111111-2222-4333-8444-555555555555",
		Originals: []undo.Original{
			{Path: "kubepods.slice/a.scope", File: cgroup.FileCPUs, Container: "a", Value: ""},
			{Path: "kubepods.slice/a.scope", File: cgroup.FileMax, Container: "a", Value: "200000 100000"},
			{Path: "system.slice/du.service", File: cgroup.FileCPUs, Unit: "du.service", Value: "0-1"},
		},
		Assignments: []pools.Assignment{
			{Key: pools.Key{PodUID: "", Container: "du.service"}, CPUs: cpuset.Of(6)},
			{Key: pools.Key{PodUID: "pod", Container: "app"}, CPUs: cpuset.Of(4, 5), Away: cpuset.Of(7)},
		},
		Unhinted: []pools.Key{{PodUID: "pod", Container: "app"}},
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
		t.Errorf("the journal of a daemon with nothing new in it has another form (-earlier +now):\n%s\nraise version if the earlier build would misread it", d)
	}
}

// TestJournalVersions checks which versions are read, and which one a document gets.
func TestJournalVersions(t *testing.T) {
	withoutCPUs, withoutClaim, afterwards := claimedJournal(), claimedJournal(), claimedJournal()
	withoutCPUs.Assignments, withoutClaim.Claims = nil, nil
	afterwards.Claims, afterwards.Assignments = nil, sampleJournal().Assignments
	for name, c := range map[string]struct {
		doc  undo.Document
		want string
	}{
		"no claims":                    {sampleJournal(), "2"},
		"a claim":                      {claimedJournal(), "3"},
		"a claim without CPUs":         {withoutCPUs, "3"},
		"CPUs of a claim that is gone": {withoutClaim, "3"},
		"after the claim's end":        {afterwards, "2"},
	} {
		b, err := undo.Encode(c.doc)
		if err != nil || !bytes.HasPrefix(b, []byte(`{"version":`+c.want+`,`)) {
			t.Errorf("%s: %.20s, %v; want version %s", name, b, err, c.want)
		}
	}
	b, err := undo.Encode(sampleJournal())
	if err != nil {
		t.Fatal(err)
	}
	for version, read := range map[string]bool{"0": false, "1": true, "2": true, "3": true, "4": false} {
		_, err := undo.Decode(bytes.Replace(b, []byte(`"version":2`), []byte(`"version":`+version), 1))
		if (err == nil) != read || err != nil && !errors.Is(err, undo.ErrDamaged) {
			t.Errorf("version %s: %v; want it read: %t", version, err, read)
		}
	}
}

// TestBadClaims checks that a journal with claims out of bounds is neither written nor read.
func TestBadClaims(t *testing.T) {
	for name, change := range map[string]func(*undo.Document){
		"a name that is too long": func(d *undo.Document) { d.Claims[0].Name = strings.Repeat("a", 254) },
		"too many CPUs":           func(d *undo.Document) { d.Claims[0].Parts[0].CPUs = cpuset.MaxCPUs + 1 },
		"a claim twice":           func(d *undo.Document) { d.Claims = append(d.Claims, d.Claims[0]) },
		"CPUs of claim and pod":   func(d *undo.Document) { d.Assignments[len(d.Assignments)-1].PodUID = "pod" },
	} {
		d := claimedJournal()
		change(&d)
		if b, err := undo.Encode(d); err == nil {
			t.Errorf("%s: written as %s", name, b)
		}
		b, err := durable.Encode(3, d)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := undo.Decode(b); !errors.Is(err, undo.ErrDamaged) {
			t.Errorf("%s: read as %+v, %v; want that the journal is damaged", name, d, err)
		}
	}
}

// TestAcceptedOutlivesTheBoot checks that only Accepted is read of an earlier boot's file, without
// the CPUs of cpus: auto.
func TestAcceptedOutlivesTheBoot(t *testing.T) {
	name := filepath.Join(t.TempDir(), "journal.json")
	was := sampleJournal()
	was.Accepted = &undo.Accepted{Pools: "x", Present: cpuset.Of(0), Online: cpuset.Of(0), Auto: []cpuset.Set{cpuset.Of(0)}}
	if err := (undo.File{Name: name}).Save(was); err != nil {
		t.Fatal(err)
	}
	if j, note := (undo.File{Name: name}).Load("boot-1", time.Now()); note != nil || !j.Accepted.Equal(*was.Accepted) {
		t.Errorf("journal of this boot = %+v, %v", j, note)
	}
	was.Accepted.Auto = nil
	j, note := undo.File{Name: name}.Load("boot-2", time.Now())
	if note != nil || !j.Accepted.Equal(*was.Accepted) || len(j.Originals)+len(j.Assignments) != 0 {
		t.Errorf("journal of an earlier boot = %+v, %v", j, note)
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
}

// TestOriginalOfAUnit checks that a unit's original stays when the unit's cgroup changes:
// in another slice the unit still has the daemon's value.
func TestOriginalOfAUnit(t *testing.T) {
	was := undo.Original{Path: "system.slice/du.service", File: cgroup.FileCPUs, Unit: "du.service"}
	moved := was
	moved.Path, moved.Value = "radio.slice/du.service", "4-5"
	for name, l := range map[string]*undo.Journal{
		"noted":        undo.Document{}.Journal(),
		"journal":      undo.Document{Originals: []undo.Original{was, moved}}.Journal(),
		"other order":  undo.Document{Originals: []undo.Original{moved, was}}.Journal(),
		"one and note": undo.Document{Originals: []undo.Original{was}}.Journal(),
	} {
		l.Originals.Note(was)
		l.Originals.Note(moved)
		if all := l.Originals.OfUnits()["du.service"]; len(all) != 1 || all[0].Properties()[0] != (systemd.Property{Name: cgroup.UnitCPUs}) {
			t.Errorf("%s: %v; want no value", name, all)
		}
	}
}
