package undo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/durable"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
)

// fileLimit bounds the size of the file that is read: 64 MiB hold about 300,000 originals.
const fileLimit = 64 << 20

// Load returns the journal of this boot. It never fails, because the daemon works without
// a journal; note reports what was lost. A missing file is an empty journal. Load sets a
// damaged file aside. Of an earlier boot's journal it returns only the facts that outlive
// a boot, because its cgroups are gone.
func Load(name, bootID string, now time.Time) (d Document, note error) {
	empty := Document{BootID: bootID}
	b, err := durable.Read(name, fileLimit)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return empty, nil
	case err != nil:
		err = fmt.Errorf("read journal: %w", err)
		if mvErr := os.Rename(name, name+".unread"); mvErr != nil { // the next save would replace the file
			err = fmt.Errorf("%w (and it could not be set aside: %w)", err, mvErr)
		}
		return empty, fmt.Errorf("%w: starting with an empty one", err)
	}
	if d, err = decode(b); err != nil {
		aside := fmt.Sprintf("%s.bad-%d", name, now.Unix())
		if mvErr := os.Rename(name, aside); mvErr != nil {
			return empty, fmt.Errorf("%s: %w (and it could not be set aside: %w)", name, err, mvErr)
		}
		return empty, fmt.Errorf("%s: %w: set aside as %s; the originals in it are lost, and `cpupoold restore` cannot put them back", name, err, aside)
	}
	return d.inBoot(bootID), nil
}

// State is the condition of a journal's file.
type State int

// States of a journal's file.
const (
	Known State = iota
	Missing
	EarlierBoot
	Damaged
	Unreadable // the disk returns an error
)

// Examine returns the journal of this boot, and the condition of its file. It changes no
// file. The error explains the states Damaged and Unreadable.
func Examine(name string) (Document, State, error) {
	bootID, err := hostenv.ReadBootID()
	if err != nil {
		return Document{}, Unreadable, err
	}
	empty := Document{BootID: bootID}
	b, err := durable.Read(name, fileLimit)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return empty, Missing, nil
	case err != nil:
		return empty, Unreadable, fmt.Errorf("read journal: %w; repair the disk, or move the file away: then `cpupoold restore` uses defaults instead of the originals in it", err)
	}
	d, err := decode(b)
	switch {
	case err != nil:
		return empty, Damaged, fmt.Errorf("%s: %w", name, err)
	case d.BootID != bootID:
		return d.inBoot(bootID), EarlierBoot, nil
	}
	return d, Known, nil
}

// Peek returns the journal of this boot. It changes no file.
func Peek(name string) (Document, error) {
	d, _, err := Examine(name)
	return d, err
}

// Save replaces the file atomically and durably. It sorts the document's originals.
func Save(name string, d Document) error {
	SortOriginals(d.Originals)
	b, err := encode(d)
	if err != nil {
		return err
	}
	if err := durable.Write(name, b); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	return nil
}

// Remove removes the file after a complete restore, and the mark before it: a mark without
// a file means that the journal is lost.
func Remove(name string, mark durable.Mark) error {
	err := mark.Remove()
	if e := os.Remove(name); !errors.Is(e, fs.ErrNotExist) {
		err = errors.Join(err, e)
	}
	return err
}

// Mark returns the mark of a journal, a file next to the lock. Without the mark there was
// no journal since the boot, or a restore was complete. Then values belong to the owners of
// their files or units, even values that the daemon would write.
func Mark(runDir, bootID string) durable.Mark {
	return durable.Mark{Name: filepath.Join(runDir, "journal.mark"), BootID: bootID}
}
