package undo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/durable"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
)

// fileLimit bounds the size of the file that is read: 64 MiB hold about 300,000 originals.
const fileLimit = 64 << 20

// Load returns the journal of this boot, with the newer changes in runDir. It never fails, because
// the daemon works without a journal; note reports the loss. A missing file is an empty journal. Load
// sets a damaged file aside. Of an earlier boot's journal it returns only the facts that outlive
// a boot, because its cgroups are gone.
//
// Load removes changes in runDir that do not follow the file: numbers can begin again after it.
func Load(name, runDir, bootID string, now time.Time) (d Document, note error) {
	d, is, note := read(name, runDir, bootID)
	moveTo := func(aside string) (moved bool) {
		err := os.Rename(name, aside)
		if err != nil {
			note = fmt.Errorf("%w (and it could not be set aside: %w)", note, err)
		}
		return err == nil
	}
	switch is {
	case unreadable: // the next save would replace the file
		moveTo(name + ".unread")
		note = fmt.Errorf("%w: starting with an empty one", note)
	case damaged:
		if aside := fmt.Sprintf("%s.bad-%d", name, now.Unix()); moveTo(aside) {
			note = fmt.Errorf("%w: set aside as %s; the originals in it are lost, and `cpupoold restore` cannot put them back", note, aside)
		}
	}
	if d.Change == d.OnDisk && runDir != "" {
		note = errors.Join(note, durable.Remove(recentName(runDir)))
	}
	return d, note
}

type state int

const (
	known state = iota
	missing
	earlierBoot
	damaged
	unreadable // the disk returns an error
)

// read reads the journal without a change. The error explains damaged and unreadable. With another
// state, it is about the changes in runDir, which the document then lacks.
func read(name, runDir, bootID string) (Document, state, error) {
	newer, newerErr := readRecent(runDir) // first: a daemon can save meanwhile, and then the document has them
	d, is, err := readDisk(name, bootID)
	if is != known {
		return d, is, err
	}
	if all, ok := newer.extend(d); ok {
		return all, known, nil
	}
	d.OnDisk = d.Change
	return d, known, newerErr
}

func readDisk(name, bootID string) (Document, state, error) {
	empty := Document{BootID: bootID}
	b, err := durable.Read(name, fileLimit)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return empty, missing, nil
	case err != nil:
		return empty, unreadable, fmt.Errorf("read journal: %w", err)
	}
	d, err := decode(b)
	switch {
	case err != nil:
		return empty, damaged, fmt.Errorf("%s: %w", name, err)
	case d.BootID != bootID:
		return d.inBoot(bootID), earlierBoot, nil
	}
	return d, known, nil
}

// examine reads the journal of this boot without a change.
func examine(name, runDir string) (Document, state, error) {
	bootID, err := hostenv.ReadBootID()
	if err != nil {
		return Document{}, unreadable, err
	}
	d, is, err := read(name, runDir, bootID)
	if is == unreadable {
		err = fmt.Errorf("%w; repair the disk, or move the file away: then `cpupoold restore` uses defaults instead of the originals in it", err)
	}
	return d, is, err
}

// Peek returns the journal of this boot, with the newer changes in runDir. It changes no file. With an
// error, the document has the facts that can be read.
func Peek(name, runDir string) (Document, error) {
	d, _, err := examine(name, runDir)
	return d, err
}

// Found is the journal that a restore finds.
type Found struct {
	Document
	// EarlierBoot means that the journal is of an earlier boot.
	EarlierBoot bool
	// Lost means that there was a journal of this boot whose originals are unknown now.
	Lost bool
	// Damage is the reason why the file cannot be used; nil if the file is missing. Without Lost, it is
	// the reason why newer changes in runDir cannot be used.
	Damage error
}

// Find returns the journal for a restore. It changes no file. An error means that the disk
// does not return the file or the mark in runDir.
func Find(name, runDir string) (Found, error) {
	d, state, err := examine(name, runDir)
	f := Found{Document: d, EarlierBoot: state == earlierBoot}
	switch state {
	case unreadable:
		return f, err
	case damaged:
		f.Lost, f.Damage = true, err
	case known:
		f.Damage = err
	case missing:
		if f.Lost, err = markOf(runDir, d.BootID).There(); err != nil {
			return f, fmt.Errorf("journal %s does not exist, and the mark of a lost one cannot be read: %w", name, err)
		}
	}
	return f, nil
}

// Save replaces the file atomically and durably, after it has left the mark in runDir. An
// empty runDir means no mark. Save sorts the document's originals.
func Save(name, runDir string, d Document) error {
	var markErr error
	if runDir != "" {
		markErr = markOf(runDir, d.BootID).Leave()
	}
	slices.SortFunc(d.Originals, Original.Compare)
	b, err := encode(d)
	if err != nil {
		return errors.Join(markErr, fmt.Errorf("encode journal: %w", err))
	}
	if err := durable.Write(name, b); err != nil {
		return errors.Join(markErr, fmt.Errorf("write journal: %w", err))
	}
	return markErr
}

// Remove removes the file after a complete restore, with newer changes in runDir, and the mark before
// it: a mark without a file means that the journal is lost.
func Remove(name, runDir, bootID string) error {
	return errors.Join(durable.Remove(recentName(runDir)), markOf(runDir, bootID).Remove(), durable.Remove(name))
}

// markOf returns the mark next to the lock. Without it there was no journal since the boot, and
// values belong to the owners of their files.
func markOf(runDir, bootID string) durable.Mark {
	return durable.Mark{Name: filepath.Join(runDir, "journal.mark"), BootID: bootID}
}
