package durable

import (
	"errors"
	"io/fs"
	"os"

	"github.com/cpupoold/cpupoold/internal/node/confined"
)

// Mark is a small file about a record, in a directory that is emptied at boot. If the mark
// exists and the record is missing, the record was lost. Without the mark, no record was
// written since the boot, or the record was empty.
type Mark struct {
	Name string
	// BootID is the kernel's (/proc/sys/kernel/random/boot_id): a directory that outlives
	// the boot after all does not mislead.
	BootID string
}

// Leave writes the mark. Call it before the record is written.
func (m Mark) Leave() error {
	if is, err := m.There(); is || err != nil {
		return err
	}
	return in(m.Name, 0o755, func(d *confined.Dir, base string) error { return d.Write(base, []byte(m.BootID), 0o600) })
}

// Remove removes the mark. Call it before the record is removed: a mark alone means a loss.
func (m Mark) Remove() error { return Remove(m.Name) }

// markLimit is above the length of every boot ID, in bytes.
const markLimit = 4096

// There reports whether the mark exists and is of this boot.
func (m Mark) There() (bool, error) {
	b, err := Read(m.Name, markLimit)
	return err == nil && string(b) == m.BootID, ignoreMissing(err)
}

// Remove removes a file. A missing file is no error.
func Remove(name string) error { return ignoreMissing(os.Remove(name)) }

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
