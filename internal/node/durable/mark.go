package durable

import (
	"errors"
	"io/fs"
	"os"

	"github.com/cpupoold/cpupoold/internal/node/confined"
)

// Mark is a small file beside a record, in a directory that ends with the boot. While it
// is there, a record that is missing is lost; where it is not, there never was one since
// the machine booted, or nothing was left in it.
type Mark struct {
	Name string
	// BootID is the kernel's (/proc/sys/kernel/random/boot_id): a directory that outlives
	// the boot after all does not mislead.
	BootID string
}

// Leave makes the mark. It is to be there before the record is.
func (m Mark) Leave() error {
	if is, err := m.There(); is || err != nil {
		return err
	}
	return in(m.Name, 0o755, func(d *confined.Dir, base string) error { return d.Write(base, []byte(m.BootID), 0o600) })
}

// Remove removes it, before the record goes: alone it would say that one is lost.
func (m Mark) Remove() error { return Remove(m.Name) }

// markLimit is above the length of every boot ID, in bytes.
const markLimit = 4096

// There says whether it is of this boot.
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
