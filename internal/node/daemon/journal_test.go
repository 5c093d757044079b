package daemon

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

func sampleJournal() undo.Document {
	return undo.Document{
		BootID: "boot-1",
		Originals: []undo.Original{
			{Path: "kubepods.slice/a.scope", File: cgroup.FileCPUs, Container: "a", Value: ""},
			{Path: "kubepods.slice/a.scope", File: cgroup.FileMax, Container: "a", Value: "200000 100000"},
		},
		Assignments: []undo.Assignment{{PodUID: "pod", Container: "app", CPUs: cpuset.Of(4, 5)}},
		Unhinted:    []undo.Owner{{PodUID: "pod", Container: "app"}},
	}
}

func TestJournalRoundTrip(t *testing.T) {
	name := filepath.Join(t.TempDir(), "state", "journal.json")
	want := sampleJournal()
	if err := undo.Save(name, want); err != nil {
		t.Fatal(err)
	}
	got, note := undo.Load(name, "boot-1", time.Now())
	if note != nil {
		t.Fatal(note)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("journal (-written +read):\n%s", d)
	}
	got, note = undo.Load(name, "boot-2", time.Now())
	if note != nil || len(got.Originals)+len(got.Assignments) != 0 {
		t.Errorf("journal of an earlier boot: %+v, %v; want an empty one", got, note)
	}
}

// TestJournalOfVersion1 checks that an upgrade keeps the originals of a journal from before
// units existed.
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

func TestBadJournalIsSetAside(t *testing.T) {
	good, err := undo.Encode(sampleJournal())
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"empty":     {},
		"cut":       good[:len(good)/2],
		"flipped":   bytes.Replace(good, []byte("200000"), []byte("300000"), 1),
		"version":   bytes.Replace(good, []byte(`"version":2`), []byte(`"version":3`), 1),
		"version 0": bytes.Replace(good, []byte(`"version":2`), []byte(`"version":0`), 1),
		"not json":  []byte("\x00\x01\x02"),
		"too large": []byte(strings.Repeat(" ", 10) + "[]"),
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "journal.json")
			if err := os.WriteFile(file, content, 0o600); err != nil {
				t.Fatal(err)
			}
			j, note := undo.Load(file, "boot-1", time.Unix(7, 0))
			if !errors.Is(note, undo.ErrBadJournal) {
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

func TestFullDiskKeepsTheOldJournal(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "journal.json")
	if err := undo.Save(name, sampleJournal()); err != nil {
		t.Fatal(err)
	}
	// A directory at the path of the new file makes the write fail.
	blocked := filepath.Join(dir, "blocked")
	if err := os.MkdirAll(filepath.Join(blocked, "journal.json", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := undo.Save(filepath.Join(blocked, "journal.json"), undo.Document{}); err == nil {
		t.Error("no error although the journal could not be replaced")
	}
	if j, note := undo.Load(name, "boot-1", time.Now()); note != nil || len(j.Originals) != 2 {
		t.Errorf("old journal = %+v, %v", j, note)
	}
}

func FuzzDecodeJournal(f *testing.F) {
	good, err := undo.Encode(sampleJournal())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"version":1,"sha256":"","data":{}}`))
	f.Add([]byte(`{"version":1,"data":null}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		j, err := undo.Decode(b)
		if err != nil {
			if !errors.Is(err, undo.ErrBadJournal) {
				t.Fatalf("error of another kind: %v", err)
			}
			return
		}
		again, err := undo.Encode(j)
		if err != nil {
			t.Fatal(err)
		}
		if j2, err := undo.Decode(again); err != nil || !cmp.Equal(j, j2) {
			t.Fatalf("round trip: %+v, %v; want %+v", j2, err, j)
		}
	})
}
