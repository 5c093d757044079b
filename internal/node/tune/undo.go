package tune

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/cpupoold/cpupoold/internal/node/durable"
)

// undoVersion is raised when an older daemon could misread the file.
const undoVersion = 1

// undoLimit bounds what is read back: 16 MiB are about 100,000 knobs.
const undoLimit = 16 << 20

// Undo is where it is on record what knobs were.
type Undo struct {
	// File survives a reboot, so that it can be told from one; its values do not.
	File string
	// Mark is a file that does not survive one. It is there as long as knobs hold values
	// of the daemon's, and tells a record that is lost from one that never was.
	Mark string
	// BootID is the kernel's (/proc/sys/kernel/random/boot_id).
	BootID string
}

// State is what has become of a record.
type State string

// The states.
const (
	// None: nothing has been changed.
	None State = "none"
	// Known: originals are on record.
	Known State = "known"
	// EarlierBoot: the machine has booted since, and with it all values have gone.
	EarlierBoot State = "earlier-boot"
	// Lost: the record is missing or damaged although values have been changed.
	Lost State = "lost"
)

type undoData struct {
	BootID  string   `json:"bootID"`
	Records []Record `json:"records"`
}

var errDamaged = errors.New("undo record of the host's settings cannot be used")

// encodeUndo gives equal bytes for equal records.
func encodeUndo(d undoData) ([]byte, error) { return durable.Encode(undoVersion, d) }

// decodeUndo is strict: what is not exactly what encodeUndo wrote is errDamaged.
func decodeUndo(b []byte) (undoData, error) {
	var d undoData
	if err := durable.Decode(b, undoVersion, undoVersion, &d); err != nil {
		return undoData{}, fmt.Errorf("%w: %w", errDamaged, err)
	}
	return d, nil
}

func (u Undo) mark() durable.Mark { return durable.Mark{Name: u.Mark, BootID: u.BootID} }

// Load reads the record. The error says why it is Lost.
func (u Undo) Load() ([]Record, State, error) {
	b, err := durable.Read(u.File, undoLimit)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if changed, _ := u.mark().There(); changed { // one that cannot be read is no evidence
			return nil, Lost, fmt.Errorf("%s is missing, although settings of the host have been changed since the machine booted", u.File)
		}
		return nil, None, nil
	case err != nil:
		return nil, Lost, fmt.Errorf("read %s: %w", u.File, err)
	}
	d, err := decodeUndo(b)
	switch {
	case err != nil:
		return nil, Lost, fmt.Errorf("%s: %w", u.File, err)
	case d.BootID != u.BootID:
		return nil, EarlierBoot, nil
	case len(d.Records) == 0:
		return nil, None, nil
	}
	return d.Records, Known, nil
}

// Save makes the record durable: a power failure right after it leaves it there. With no
// records the file goes.
func (u Undo) Save(records []Record) error {
	if len(records) == 0 {
		// The mark goes first: alone it would say that a record is lost.
		return errors.Join(u.mark().Remove(), ignoreMissing(os.Remove(u.File)))
	}
	b, err := encodeUndo(undoData{BootID: u.BootID, Records: records})
	if err != nil {
		return fmt.Errorf("encode undo record: %w", err)
	}
	if err := errors.Join(u.mark().Leave(), durable.Write(u.File, b)); err != nil {
		return fmt.Errorf("write undo record: %w", err)
	}
	return nil
}

// setAside keeps a file that cannot be read for people to look at.
func (u Undo) setAside() error { return ignoreMissing(os.Rename(u.File, u.File+".bad")) }

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
