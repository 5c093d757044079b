package undo_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/undo"
)

// TestJudgeJournal checks that each state of a journal on disk is recognized.
func TestJudgeJournal(t *testing.T) {
	name := filepath.Join(t.TempDir(), "journal.json")
	boot, err := hostenv.ReadBootID()
	if err != nil {
		t.Fatal(err)
	}
	write := func(text []byte) {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what string, want undo.State) {
		t.Helper()
		if _, got, err := undo.Examine(name); got != want || (err != nil) != (want == undo.Damaged || want == undo.Unreadable) {
			t.Errorf("%s: state %d, %v; want %d", what, got, err, want)
		}
	}
	check("none", undo.Missing)
	if err := undo.Save(name, undo.Document{BootID: boot}); err != nil {
		t.Fatal(err)
	}
	check("this boot's", undo.Known)
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	write(text[:len(text)/2])
	check("half", undo.Damaged)
	if err := undo.Save(name, undo.Document{BootID: "earlier"}); err != nil {
		t.Fatal(err)
	}
	check("an earlier boot's", undo.EarlierBoot)
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(name, 0o700); err != nil {
		t.Fatal(err)
	}
	check("a directory", undo.Unreadable)
}
