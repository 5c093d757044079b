package tune

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/cpupoold/cpupoold/internal/node/durable"
)

// undoVersion changes when an older daemon could misread the file.
const undoVersion = 1

// undoLimit is the maximum size of the file in bytes, for about 100,000 knobs.
const undoLimit = 16 << 20

// Undo locates the undo record: the originals of changed knobs.
type Undo struct {
	// File contains the records. It survives a reboot, but is not valid afterwards.
	File string
	// Mark is a file that does not survive a reboot. It exists while knobs have values of the
	// daemon, so that a missing File is recognized as lost.
	Mark string
	// BootID is the content of /proc/sys/kernel/random/boot_id.
	BootID string
}

// State is the state of the undo record.
type State string

// The states.
const (
	// None means that no knob has been changed.
	None State = "none"
	// Known means that the record contains the originals.
	Known State = "known"
	// EarlierBoot means that the machine has rebooted since the changes, so that they are gone.
	EarlierBoot State = "earlier-boot"
	// Lost means that the record is missing or damaged although knobs have been changed.
	Lost State = "lost"
)

type undoData struct {
	BootID  string   `json:"bootID"`
	Records []Record `json:"records"`
}

func (u Undo) mark() durable.Mark { return durable.Mark{Name: u.Mark, BootID: u.BootID} }

// Load returns the records and their state. With the state Lost, the error is the reason.
func (u Undo) Load() ([]Record, State, error) {
	b, err := durable.Read(u.File, undoLimit)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if changed, _ := u.mark().There(); changed { // an unreadable mark counts as missing
			return nil, Lost, fmt.Errorf("%s is missing, although host settings have been changed since boot", u.File)
		}
		return nil, None, nil
	case err != nil:
		return nil, Lost, fmt.Errorf("read %s: %w", u.File, err)
	}
	var d undoData
	err = durable.Decode(b, undoVersion, undoVersion, &d)
	switch {
	case err != nil:
		return nil, Lost, fmt.Errorf("%s: undo record of host settings is damaged: %w", u.File, err)
	case d.BootID != u.BootID:
		return nil, EarlierBoot, nil
	case len(d.Records) == 0:
		return nil, None, nil
	}
	return d.Records, Known, nil
}

// Save writes the records. They are on disk when it returns, also after a power failure.
// Without records it removes the file.
func (u Undo) Save(records []Record) error {
	if len(records) == 0 {
		// The mark is removed first, because a mark without a file means that the record is lost.
		return errors.Join(u.mark().Remove(), durable.Remove(u.File))
	}
	b, err := durable.Encode(undoVersion, undoData{BootID: u.BootID, Records: records})
	if err != nil {
		return fmt.Errorf("encode undo record: %w", err)
	}
	if err := errors.Join(u.mark().Leave(), durable.Write(u.File, b)); err != nil {
		return fmt.Errorf("write undo record: %w", err)
	}
	return nil
}

// setAside renames an unusable file, and keeps it for analysis.
func (u Undo) setAside() error {
	err := os.Rename(u.File, u.File+".bad")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
