package undo_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cpupoold/cpupoold/internal/node/durable"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/kernelfs"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// files are the journal's files of a daemon.
type files struct {
	t *testing.T
	undo.File
	boot string
}

func newFiles(t *testing.T) files {
	t.Helper()
	boot, err := kernelfs.BootID()
	if err != nil {
		t.Fatal(err)
	}
	return files{t, undo.File{Name: filepath.Join(t.TempDir(), "journal.json"), RunDir: t.TempDir()}, boot}
}

func (f files) recent() string { return filepath.Join(f.RunDir, "journal.recent") }

// save saves a journal on disk.
func (f files) save(j *undo.Journal) {
	f.t.Helper()
	d, upTo, due := j.BeginSave(time.Unix(100, 0))
	if !due {
		f.t.Fatal("no save is due")
	}
	if err := f.Save(d); err != nil {
		f.t.Fatal(err)
	}
	j.EndSave(upTo, nil, time.Unix(100, 0))
}

// killed writes the files of a daemon that was killed after changes in memory alone: a new original,
// another value, an end of an original, and an assignment.
func (f files) killed() {
	f.t.Helper()
	j := undo.Document{BootID: f.boot}.Journal()
	for _, o := range []undo.Original{
		{Path: "kept", File: cgroup.FileCPUs, Value: "0-7"}, {Path: "resized", File: cgroup.FileMax, Value: "1000 100000"},
		{Path: "u", Unit: "reverted.service", File: cgroup.FileCPUs, Value: "1"}, {Path: "v", Unit: "du.service", File: cgroup.FileCPUs, Value: "2"},
	} {
		j.Originals.Note(o)
	}
	f.save(j)
	j.Originals.Note(undo.Original{Path: "new", File: cgroup.FileCPUs, Value: "0-3"})
	j.Originals.Amend(undo.Key{Path: "resized", File: cgroup.FileMax}, "2000 100000")
	j.Originals.ForgetUnit("reverted.service")
	j.SetAssignments([]pools.Assignment{{Key: pools.Key{PodUID: "p", Container: "app"}, CPUs: cpuset.Of(4)}})
	if j.WriteRecent(f.RunDir); !j.Safe() || j.MustWait(j.Newest()) || j.IsSaved(j.Newest()) {
		f.t.Fatal("the changes are not in memory alone")
	}
}

// summary returns the values of originals by place, and the number of assignments.
func summary(d undo.Document) string {
	var all []string
	for _, o := range d.Originals {
		all = append(all, fmt.Sprintf("%s%s=%s", o.Key().Path, o.Unit, o.Value))
	}
	slices.Sort(all)
	return fmt.Sprint(all, len(d.Assignments))
}

// rewrite changes fields of a file, and keeps its checksum correct.
func (f files) rewrite(name string, version int, change func(map[string]any)) {
	f.t.Helper()
	var file struct{ Data map[string]any }
	b, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(b, &file)
	}
	if err == nil {
		change(file.Data)
		if b, err = durable.Encode(version, file.Data); err == nil {
			err = os.WriteFile(name, b, 0o600)
		}
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// TestReadRecent checks which changes in memory a daemon, a preview and a restore use, and that a daemon
// removes the other ones.
func TestReadRecent(t *testing.T) {
	const onDisk, newest = "[du.service=2 kept=0-7 resized=1000 100000 reverted.service=1] 0", "[du.service=2 kept=0-7 new=0-3 resized=2000 100000] 1"
	recent := func(key string, value any) func(f files) {
		return func(f files) { f.rewrite(f.recent(), 1, func(d map[string]any) { d[key] = value }) }
	}
	document := func(key string, value any) func(f files) {
		return func(f files) { f.rewrite(f.Name, 2, func(d map[string]any) { d[key] = value }) }
	}
	write := func(content string) func(f files) {
		return func(f files) {
			if err := os.WriteFile(f.recent(), []byte(content), 0o600); err != nil {
				f.t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		change  func(f files)
		want    string
		damaged bool // the file in memory
	}{
		"newer":          {func(files) {}, newest, false},
		"missing":        {func(f files) { _ = os.Remove(f.recent()) }, onDisk, false},
		"no directory":   {func(f files) { _ = os.RemoveAll(f.RunDir) }, onDisk, false},
		"equal":          {document("change", 8), onDisk, false},
		"older":          {document("change", 9), onDisk, false},
		"saved since":    {document("change", 6), newest, false},
		"unknown base":   {document("change", 3), onDisk, false},
		"older daemon":   {document("change", 0), onDisk, false},
		"another boot":   {recent("bootID", "earlier"), onDisk, false},
		"newer field":    {recent("novelty", 1), newest, false},
		"empty":          {write(""), onDisk, true},
		"cut":            {write(`{"version":1,"sha`), onDisk, true},
		"base 0":         {recent("base", 0), onDisk, true},
		"negative":       {recent("change", -1), onDisk, true},
		"newer version":  {func(f files) { f.rewrite(f.recent(), 2, func(map[string]any) {}) }, onDisk, true},
		"too large":      {func(f files) { _ = os.Truncate(f.recent(), 1<<20+1) }, onDisk, true},
		"a directory":    {func(f files) { _ = errors.Join(os.Remove(f.recent()), os.Mkdir(f.recent(), 0o700)) }, onDisk, true},
		"bad claim":      {recent("assignments", []any{map[string]any{"podUID": "p", "claim": "c", "cpus": "4"}}), onDisk, true},
		"lost journal":   {func(f files) { _ = os.Remove(f.Name) }, "[] 0", false},
		"after a reboot": {func(f files) { document("bootID", "earlier")(f); recent("bootID", "earlier")(f) }, "[] 0", false},
		"restored":       {func(f files) { _ = f.Remove(f.boot) }, "[] 0", false},
		"restored in part": {func(f files) {
			_ = undo.File{Name: f.Name}.Save(undo.Document{BootID: f.boot, Originals: []undo.Original{{Path: "rest", Value: "1"}}})
		}, "[rest=1] 0", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFiles(t)
			f.killed()
			c.change(f)
			d, err := f.Find()
			if got := summary(d); got != c.want || err != nil || (d.Damage != nil) != c.damaged {
				t.Errorf("Find: %s, %v, %v; want %s, damaged: %t", got, d.Damage, err, c.want, c.damaged)
			}
			d, note := f.Load(f.boot, time.Unix(7, 0))
			if got := summary(d); got != c.want || (note != nil) != c.damaged {
				t.Errorf("Load: %s, %v", got, note)
			}
			if _, err := os.Stat(f.recent()); (err == nil) != (c.want == newest) {
				t.Errorf("file in memory after Load: %v; want it only if it is newer than the journal", err)
			}
		})
	}
}

// TestRecentAfterRestart checks that a daemon that starts with changes in memory saves them, counts on,
// and keeps its own changes in memory after that save.
func TestRecentAfterRestart(t *testing.T) {
	f := newFiles(t)
	f.killed()
	load := func() *undo.Journal {
		d, note := f.Load(f.boot, time.Unix(7, 0))
		if note != nil {
			t.Fatal(note)
		}
		return d.Journal()
	}
	second := load()
	first := second.Newest()
	second.Originals.Note(undo.Original{Path: "second", File: cgroup.FileCPUs})
	if second.WriteRecent(f.RunDir); second.Safe() || second.Newest() != first+1 {
		t.Fatal("changes follow a file on disk that lacks older ones, or numbers begin again")
	}
	f.save(second)
	second.Originals.Note(undo.Original{Path: "third", File: cgroup.FileCPUs})
	if second.WriteRecent(f.RunDir); !second.Safe() {
		t.Fatal("changes after the save are not in memory")
	}
	third := load()
	for _, path := range []cgroup.Path{"new", "second", "third"} {
		if !third.Originals.Has(path, cgroup.FileCPUs) {
			t.Errorf("no original of %s after two kills", path)
		}
	}
	f.save(third)
	fourth := load()
	fourth.Originals.Note(undo.Original{Path: "fourth", File: cgroup.FileCPUs})
	if fourth.WriteRecent(f.RunDir); !fourth.Safe() {
		t.Error("a daemon that knows the file on disk keeps no change in memory before its first save")
	}
}

// TestRecentOfOlderDaemon checks that changes in memory are not used when an older daemon ran in between,
// also after numbers have grown again.
func TestRecentOfOlderDaemon(t *testing.T) {
	f := newFiles(t)
	f.killed()
	f.rewrite(f.Name, 2, func(d map[string]any) { delete(d, "change") })
	d, note := f.Load(f.boot, time.Unix(7, 0))
	if note != nil || d.Change != 0 {
		t.Fatalf("change %d, %v", d.Change, note)
	}
	j := d.Journal()
	for i := range 5 { // the base of the earlier changes is 4
		j.Originals.Note(undo.Original{Path: cgroup.Path(fmt.Sprint(i)), File: cgroup.FileCPUs})
		if i == 0 {
			if j.WriteRecent(f.RunDir); j.Safe() {
				t.Error("changes follow a file of an older daemon")
			}
		}
		f.save(j)
	}
	d, err := f.Find()
	if err != nil || d.Damage != nil || len(d.Assignments) != 0 || len(d.Originals) != 9 {
		t.Errorf("journal %s, %v; want nine originals and no assignment", summary(d), err)
	}
}

// TestRecentFallsBack checks that changes wait for the disk if they cannot be kept in memory.
func TestRecentFallsBack(t *testing.T) {
	for name, c := range map[string]struct {
		dir     string // in the directory of the test
		changes int
		safe    bool
	}{
		"in memory":    {".", 1, true},
		"none":         {"", 1, false},
		"no directory": {"gone", 1, false},
		"the most":     {".", 512, true},
		"too many":     {".", 513, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFiles(t)
			j := undo.Document{BootID: f.boot}.Journal()
			j.Originals.Note(undo.Original{Path: "first", File: cgroup.FileCPUs})
			if j.WriteRecent(f.RunDir); j.Safe() {
				t.Fatal("changes follow a file on disk that does not exist")
			}
			f.save(j)
			for i := range c.changes {
				j.Originals.Note(undo.Original{Path: cgroup.Path(fmt.Sprint(i)), File: cgroup.FileCPUs})
			}
			dir := c.dir
			if dir != "" {
				dir = filepath.Join(f.RunDir, c.dir)
			}
			if j.WriteRecent(dir); j.Safe() != c.safe || j.Blocks() == c.safe {
				t.Errorf("safe %t, writes wait %t; want safe %t", j.Safe(), j.Blocks(), c.safe)
			}
			f.save(j)
			j.Originals.Note(undo.Original{Path: "last", File: cgroup.FileCPUs})
			if j.WriteRecent(f.RunDir); !j.Safe() {
				t.Error("changes after a save are not kept in memory")
			}
		})
	}
}

// TestSaveLast checks that the end of a daemon leaves a journal on disk that an older daemon can use.
func TestSaveLast(t *testing.T) {
	f := newFiles(t)
	f.killed()
	d, note := f.Load(f.boot, time.Unix(7, 0))
	j := d.Journal()
	for _, observes := range []bool{true, false} {
		err := j.SaveLast(&hostenv.Host{JournalFile: f.Name, RunDir: f.RunDir, Observes: observes})
		got, findErr := undo.File{Name: f.Name}.Find()
		if err := errors.Join(note, err, findErr, got.Damage); err != nil || (len(got.Assignments) == 1) == observes {
			t.Errorf("observes %t: %s on disk, %v", observes, summary(got), err)
		}
	}
}

// FuzzDecodeRecent checks that the decoder returns ErrDamaged, or changes that can be encoded and that
// extend a document. Each input is a file, and also the data of a file with a correct checksum.
func FuzzDecodeRecent(f *testing.F) {
	file, err := undo.EncodeRecent(undo.Recent{Base: 1, Document: undo.Document{BootID: "b", Change: 2, Originals: []undo.Original{{Path: "a", File: cgroup.FileCPUs, Value: "1"}}},
		Dropped: []undo.Key{{Unit: "du.service", File: cgroup.FileCPUs}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(file)
	f.Add([]byte(`{"bootID":"b","change":9,"base":3,"originals":[{"path":"a","file":"cpu.max","value":"max 100000"}],"dropped":[{}]}`))
	f.Add([]byte(`{"bootID":"b","change":9223372036854775807,"base":1,"claims":[{}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		checkRecent(t, b)
		if file, err := durable.Encode(1, json.RawMessage(b)); err == nil {
			checkRecent(t, file)
		}
	})
}

func checkRecent(t *testing.T, b []byte) {
	r, err := undo.DecodeRecent(b)
	if err != nil {
		if !errors.Is(err, undo.ErrDamaged) {
			t.Fatalf("error of another kind: %v", err)
		}
		return
	}
	again, err := undo.EncodeRecent(r)
	if err != nil {
		t.Skip(err) // the bytes of the file are limited
	}
	if r2, err := undo.DecodeRecent(again); err != nil || !cmp.Equal(r, r2, cmpopts.EquateEmpty()) {
		t.Fatalf("round trip: %+v, %v; want %+v", r2, err, r)
	}
	d, ok := r.Extend(undo.Document{BootID: r.BootID, Change: r.Base, Originals: []undo.Original{{Path: "a", File: cgroup.FileCPUs}}})
	if !ok || d.Change != r.Change || d.OnDisk != r.Base {
		t.Fatalf("extended to %+v, %t", d, ok)
	}
	if _, err := undo.Encode(d); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkWriteRecent measures the file in memory with the owners of a large node.
func BenchmarkWriteRecent(b *testing.B) {
	dir, err := os.MkdirTemp("/dev/shm", "cpupoold-bench")
	if err != nil {
		b.Skip(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a directory in memory
	for _, n := range []int{10, 100, 250} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			j := undo.Document{BootID: "boot", Change: 1, OnDisk: 1}.Journal()
			var all []pools.Assignment
			for i := range n {
				all = append(all, pools.Assignment{Key: pools.Key{PodUID: fmt.Sprintf("6f1d1f3e-7f0c-4a6e-9a53-0000000%05d", i), Container: "app"}, CPUs: cpuset.Of(i)})
				j.Originals.NoteAsync(undo.Original{Path: cgroup.Path(fmt.Sprintf("kubepods.slice/kubepods-pod6f1d1f3e_7f0c_4a6e_9a53_0000000%05d.slice/cri-containerd-%064d.scope", i, i)), File: cgroup.FileCPUs, Value: "0-255"})
			}
			j.SetAssignments(all)
			for i := 0; b.Loop(); i++ {
				j.SetResting(cpuset.Of(i % 100))
				if j.WriteRecent(dir); j.MustWait(j.Newest()) {
					b.Fatal("not kept")
				}
			}
		})
	}
}
