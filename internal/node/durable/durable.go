// Package durable stores records in files with a version and a checksum. A write replaces
// the whole file. After Write, the file is on the disk.
package durable

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/cpupoold/cpupoold/internal/node/confined"
)

// ErrDamaged means that a file is not what Encode has written.
var ErrDamaged = errors.New("damaged")

// outer is the form of the file: the checksum is over the bytes of Data.
type outer struct {
	Version int             `json:"version"`
	SHA256  string          `json:"sha256"`
	Data    json.RawMessage `json:"data"`
}

// Encode gives equal bytes for equal values that encoding/json prints alike. version is
// raised when an older program could misread the file.
func Encode(version int, v any) ([]byte, error) {
	// As json.Marshal prints outer, without a copy of the data for each of its layers.
	const digits, before = 2 * sha256.Size, `","data":`
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"version":%d,"sha256":"%*s%s`, version, digits, "", before)
	begin := b.Len()
	if err := json.NewEncoder(&b).Encode(v); err != nil {
		return nil, err
	}
	all := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	hash := sha256.Sum256(all[begin:])
	hex.Encode(all[begin-len(before)-digits:], hash[:])
	return append(all, "}\n"...), nil
}

// Decode returns ErrDamaged unless b is exactly the output of Encode with a version in
// oldest..newest.
func Decode(b []byte, oldest, newest int, v any) error {
	var f outer
	if err := json.Unmarshal(b, &f); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if f.Version < oldest || f.Version > newest {
		return fmt.Errorf("%w: version %d, this program reads %d to %d", ErrDamaged, f.Version, oldest, newest)
	}
	if sum := sha256.Sum256(f.Data); hex.EncodeToString(sum[:]) != f.SHA256 {
		return fmt.Errorf("%w: checksum does not match", ErrDamaged)
	}
	if err := json.Unmarshal(f.Data, v); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return nil
}

// Write replaces a file atomically and durably. It creates the directory of the file.
func Write(name string, b []byte) error {
	return in(name, 0o700, func(d *confined.Dir, base string) error { return d.WriteDurably(base, b, 0o600) })
}

// WriteVolatile replaces a file atomically in an existing directory. A power failure can lose the file.
func WriteVolatile(name string, b []byte) error {
	return in(name, 0, func(d *confined.Dir, base string) error { return d.Write(base, b, 0o600) })
}

// Read reads a whole regular file of at most limit bytes.
func Read(name string, limit int64) (b []byte, err error) {
	err = in(name, 0, func(d *confined.Dir, base string) (err error) {
		b, err = d.Read(base, limit)
		return err
	})
	return b, err
}

// in calls f with a file's directory and name. perm 0 creates no missing directory.
func in(name string, perm fs.FileMode, f func(d *confined.Dir, base string) error) error {
	d, err := confined.Open(filepath.Dir(name), perm)
	if err != nil {
		return err
	}
	return errors.Join(f(d, filepath.Base(name)), d.Close())
}
