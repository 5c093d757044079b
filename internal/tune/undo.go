package tune

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
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

// undoFile is the outer form: the checksum is over the bytes of Data.
type undoFile struct {
	Version int             `json:"version"`
	SHA256  string          `json:"sha256"`
	Data    json.RawMessage `json:"data"`
}

var errDamaged = errors.New("undo record of the host's settings is damaged")

// encodeUndo gives equal bytes for equal records.
func encodeUndo(d undoData) ([]byte, error) {
	data, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	b, err := json.Marshal(undoFile{Version: undoVersion, SHA256: hex.EncodeToString(sum[:]), Data: data})
	return append(b, '\n'), err
}

// decodeUndo is strict: what is not exactly what encodeUndo wrote is errDamaged.
func decodeUndo(b []byte) (undoData, error) {
	var f undoFile
	if err := json.Unmarshal(b, &f); err != nil {
		return undoData{}, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if f.Version != undoVersion {
		return undoData{}, fmt.Errorf("%w: version %d, this daemon reads %d", errDamaged, f.Version, undoVersion)
	}
	if sum := sha256.Sum256(f.Data); hex.EncodeToString(sum[:]) != f.SHA256 {
		return undoData{}, fmt.Errorf("%w: checksum does not match", errDamaged)
	}
	var d undoData
	if err := json.Unmarshal(f.Data, &d); err != nil {
		return undoData{}, fmt.Errorf("%w: %w", errDamaged, err)
	}
	return d, nil
}

// Load reads the record. The error says why it is Lost.
func (u Undo) Load() ([]Record, State, error) {
	b, err := u.read()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		mark, _ := os.ReadFile(u.Mark) // no mark: nothing was changed
		if string(mark) == u.BootID {
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

func (u Undo) read() ([]byte, error) {
	f, err := os.Open(u.File)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // opened to read
	b, err := io.ReadAll(io.LimitReader(f, undoLimit+1))
	if err == nil && len(b) > undoLimit {
		err = fmt.Errorf("%w: more than %d bytes", errDamaged, undoLimit)
	}
	return b, err
}

// Save makes the record durable: a power failure right after it leaves it there. With no
// records the file goes.
func (u Undo) Save(records []Record) error {
	if len(records) == 0 {
		// The mark goes first: alone it would say that a record is lost.
		return errors.Join(ignoreMissing(os.Remove(u.Mark)), ignoreMissing(os.Remove(u.File)))
	}
	b, err := encodeUndo(undoData{BootID: u.BootID, Records: records})
	if err != nil {
		return fmt.Errorf("encode undo record: %w", err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(u.File), 0o700), os.MkdirAll(filepath.Dir(u.Mark), 0o755)); err != nil {
		return fmt.Errorf("write undo record: %w", err)
	}
	if mark, err := os.ReadFile(u.Mark); err != nil || string(mark) != u.BootID {
		if err := renameio.WriteFile(u.Mark, []byte(u.BootID), 0o600); err != nil {
			return fmt.Errorf("write undo record: mark: %w", err)
		}
	}
	if err := renameio.WriteFile(u.File, b, 0o600); err != nil {
		return fmt.Errorf("write undo record: %w", err)
	}
	dir, err := os.Open(filepath.Dir(u.File))
	if err != nil {
		return fmt.Errorf("write undo record: %w", err)
	}
	err = dir.Sync()
	if cerr := dir.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("write undo record: sync directory: %w", err)
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
