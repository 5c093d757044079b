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
	"github.com/cpupoold/cpupoold/internal/node/kernelfs"
)

// fileLimit bounds the size of the file that is read: 64 MiB hold about 300,000 originals.
const fileLimit = 64 << 20

// File is the journal's file on disk. RunDir has the mark of a lost file and the newer changes. With an
// empty RunDir, there are neither.
type File struct{ Name, RunDir string }

// Load returns the journal of this boot, with the newer changes in RunDir. It never fails, because
// the daemon works without a journal; note reports the loss. A missing file is an empty journal. Load
// sets a damaged file aside. Of an earlier boot's journal it returns only the facts that outlive
// a boot, because its cgroups are gone.
//
// Load removes changes in RunDir that do not follow the file: numbers can begin again after it.
func (f File) Load(bootID string, now time.Time) (d Document, note error) {
	d, is, note := f.read(bootID)
	moveTo := func(aside string) (moved bool) {
		err := os.Rename(f.Name, aside)
		if err != nil {
			note = fmt.Errorf("%w (and it could not be set aside: %w)", note, err)
		}
		return err == nil
	}
	switch is {
	case unreadable: // the next save would replace the file
		moveTo(f.Name + ".unread")
		note = fmt.Errorf("%w: starting with an empty one", note)
	case damaged:
		if aside := fmt.Sprintf("%s.bad-%d", f.Name, now.Unix()); moveTo(aside) {
			note = fmt.Errorf("%w: set aside as %s; the originals in it are lost, and `cpupoold restore` cannot put them back", note, aside)
		}
	}
	if d.Change == d.OnDisk && f.RunDir != "" {
		note = errors.Join(note, durable.Remove(recentName(f.RunDir)))
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
// state, it is about the changes in RunDir, which the document then lacks.
func (f File) read(bootID string) (Document, state, error) {
	newer, newerErr := readRecent(f.RunDir) // first: a daemon can save meanwhile, and then the document has them
	d, is, err := readDisk(f.Name, bootID)
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

// Find returns the journal of this boot, with the newer changes in RunDir. It changes no file. Of the
// journal of an earlier boot it returns what Load returns. With an error or with Damage, the document has
// the facts that can be read. An error means that the id of the boot, the file, or the mark cannot be read.
func (f File) Find() (Document, error) {
	bootID, err := kernelfs.BootID()
	if err != nil {
		return Document{}, err
	}
	d, state, err := f.read(bootID)
	d.EarlierBoot = state == earlierBoot
	switch state {
	case unreadable:
		return d, fmt.Errorf("%w; repair the disk, or move the file away: then `cpupoold restore` uses defaults instead of the originals in it", err)
	case damaged:
		d.Lost, d.Damage = true, err
	case known:
		d.Damage = err
	case missing:
		if f.RunDir == "" {
			break
		}
		if d.Lost, err = f.mark(bootID).There(); err != nil {
			return d, fmt.Errorf("journal %s does not exist, and the mark of a lost one cannot be read: %w", f.Name, err)
		}
	}
	return d, nil
}

// Save replaces the file atomically and durably, after it has left the mark in RunDir. It sorts
// the document's originals.
func (f File) Save(d Document) error {
	var markErr error
	if f.RunDir != "" {
		markErr = f.mark(d.BootID).Leave()
	}
	slices.SortFunc(d.Originals, Original.Compare)
	b, err := encode(d)
	if err != nil {
		return errors.Join(markErr, fmt.Errorf("encode journal: %w", err))
	}
	if err := durable.Write(f.Name, b); err != nil {
		return errors.Join(markErr, fmt.Errorf("write journal: %w", err))
	}
	return markErr
}

// Remove removes the file after a complete restore, with newer changes in RunDir, and the mark before
// it: a mark without a file means that the journal is lost.
func (f File) Remove(bootID string) error {
	if f.RunDir == "" {
		return durable.Remove(f.Name)
	}
	return errors.Join(durable.Remove(recentName(f.RunDir)), f.mark(bootID).Remove(), durable.Remove(f.Name))
}

// mark returns the mark next to the lock. Without it there was no journal since the boot, and
// values belong to the owners of their files.
func (f File) mark(bootID string) durable.Mark {
	return durable.Mark{Name: filepath.Join(f.RunDir, "journal.mark"), BootID: bootID}
}
