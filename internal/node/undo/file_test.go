package undo_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/kernelfs"
	"github.com/cpupoold/cpupoold/internal/node/undo"
)

// TestFind checks each condition of a journal that a restore can find.
func TestFind(t *testing.T) {
	name, runDir := filepath.Join(t.TempDir(), "journal.json"), filepath.Join(t.TempDir(), "run")
	boot, err := kernelfs.BootID()
	if err != nil {
		t.Fatal(err)
	}
	save := func(bootID string) {
		if err := (undo.File{Name: name, RunDir: runDir}).Save(undo.Document{BootID: bootID}); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what string, lost, damaged, earlier, unreadable bool) {
		t.Helper()
		f, err := undo.File{Name: name, RunDir: runDir}.Find()
		if f.Lost != lost || (f.Damage != nil) != damaged || f.EarlierBoot != earlier || (err != nil) != unreadable {
			t.Errorf("%s: lost %t, %v, of an earlier boot %t, %v", what, f.Lost, f.Damage, f.EarlierBoot, err)
		}
	}
	check("no journal and no mark", false, false, false, false)
	save(boot)
	check("this boot's", false, false, false, false)
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, text[:len(text)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	check("half", true, true, false, false)
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	check("the mark alone", true, false, false, false)
	save("earlier")
	check("an earlier boot's", false, false, true, false)
	if err := (undo.File{Name: name, RunDir: runDir}).Remove(boot); err != nil {
		t.Fatal(err)
	}
	check("after a restore", false, false, false, false)
	if err := os.Mkdir(name, 0o700); err != nil {
		t.Fatal(err)
	}
	check("a directory", false, false, false, true)
}
