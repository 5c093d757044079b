package undo

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/cpupoold/cpupoold/internal/node/durable"
)

// # Recent changes
//
// Apart from ResourceClaims and the accepted configuration, the facts of the journal end with the
// boot. They must survive the end of the daemon, and no power failure. So a small file in memory is
// enough for the changes since the last save on disk. Replies and writes wait for that file alone.
// The event loop writes it itself: a write to memory waits for no device, and recentEntries bounds
// the work.

const (
	recentVersion = 1
	// recentEntries is the maximum number of entries in the file. More changes wait for the disk.
	recentEntries = 512
	// recentLimit is the maximum size of the file in bytes.
	recentLimit = 1 << 20
)

// recent is the content of the file.
type recent struct {
	// Document has the facts as a whole. Its originals are new or other ones since Base.
	Document
	// Base is the change on disk from which the originals count.
	Base int `json:"base"`
	// Dropped are places without an original since Base.
	Dropped []Key `json:"dropped,omitempty"`
}

func recentName(dir string) string { return filepath.Join(dir, "journal.recent") }

func encodeRecent(r recent) ([]byte, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	b, err := durable.Encode(recentVersion, r)
	if err == nil && len(b) > recentLimit {
		err = fmt.Errorf("recent changes have %d bytes; the limit is %d", len(b), recentLimit)
	}
	return b, err
}

// decodeRecent returns errDamaged for everything that encodeRecent has not written.
func decodeRecent(b []byte) (r recent, err error) {
	if err = durable.Decode(b, recentVersion, recentVersion, &r); err == nil {
		err = r.check()
	}
	if err != nil {
		return recent{}, fmt.Errorf("%w: %w", errDamaged, err)
	}
	return r, nil
}

func (r recent) check() error {
	if r.Base < 1 || r.Change <= r.Base {
		return fmt.Errorf("change %d follows change %d of the journal; want a later one", r.Change, r.Base)
	}
	return r.checkClaims()
}

// readRecent reads the file in a directory. Without a file, it returns changes that extend no document.
func readRecent(dir string) (recent, error) {
	if dir == "" {
		return recent{}, nil
	}
	b, err := durable.Read(recentName(dir), recentLimit)
	if errors.Is(err, fs.ErrNotExist) {
		return recent{}, nil
	}
	var r recent
	if err == nil {
		r, err = decodeRecent(b)
	}
	if err != nil {
		return recent{}, fmt.Errorf("%s: changes since the last save of the journal are lost: %w", recentName(dir), err)
	}
	return r, nil
}

// extend adds the changes to the document on disk. It reports false if they do not follow this document.
// Documents of older daemons have no number, so no change follows them.
func (r recent) extend(d Document) (Document, bool) {
	if d.Change == 0 || r.BootID != d.BootID || r.Base > d.Change || r.Change <= d.Change {
		return d, false
	}
	replaced := make(map[Key]bool, len(r.Originals)+len(r.Dropped))
	for _, o := range r.Originals {
		replaced[o.Key()] = true
	}
	for _, k := range r.Dropped {
		replaced[k] = true
	}
	all := r.Document
	all.OnDisk = d.Change
	all.Originals = append(slices.DeleteFunc(slices.Clone(d.Originals), func(o Original) bool { return replaced[o.Key()] }), r.Originals...)
	return all, true
}

// WriteRecent keeps the newest changes in a directory in memory, so that they survive the end of the
// daemon. Replies and writes then wait for no disk. It does nothing with an empty name. After an error,
// or with too many changes, they wait for the next save on disk.
func (j *Journal) WriteRecent(dir string) {
	if dir == "" || !j.based || j.kept == j.changes {
		return
	}
	f := &j.facts
	if len(j.Originals.recent)+len(f.Assignments)+len(f.Unhinted)+len(f.Others)+len(f.Claims) > recentEntries {
		return
	}
	r := recent{Document: j.facts, Base: j.durable}
	r.Change, r.Originals = j.changes, make([]Original, 0, len(j.Originals.recent))
	for k := range j.Originals.recent {
		if o, ok := j.Originals.values[k]; ok {
			r.Originals = append(r.Originals, o)
		} else {
			r.Dropped = append(r.Dropped, k)
		}
	}
	b, err := encodeRecent(r)
	if err == nil {
		err = durable.WriteVolatile(recentName(dir), b)
	}
	if err != nil {
		j.based = false // EndSave tries again: a disk that hangs must not cause a write in each pass
		return
	}
	j.kept = j.changes
}
