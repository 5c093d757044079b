package appcpus

import (
	"hash/fnv"
	"io"
	"maps"
	"path"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/confined"
)

// stamps holds the stamp of a directory (name ".") and of its wanted files, from before they were
// read. While they stay the same, a check does not read the files again.
type stamps map[string]confined.Stamp

// readTurns is the number of checks in which each directory is read once in spite of its stamps:
// a write through a memory mapping changes no stamp.
const readTurns = 8

// isKept reports whether a check needs to read nothing: all stamps are as the last check left them, and
// no directory has its turn.
func (w *Writer) isKept(top, pods *confined.Dir, want map[string]map[string]string) bool {
	if now := w.stamp(pods, nil); now == nil || !maps.Equal(now, w.seen[containersDir]) || !w.keeps(unitsDir, w.stampIn(top, unitsDir, want[unitsDir])) {
		return false
	}
	for dir, files := range want {
		if dir != unitsDir && !w.keeps(dir, w.stampIn(pods, dir, files)) {
			return false
		}
	}
	return true
}

// keeps reports whether the files of a directory with these stamps need not be read in this check.
func (w *Writer) keeps(dir string, now stamps) bool {
	return w.whole && now != nil && maps.Equal(now, w.seen[dir]) && !w.hasTurn(dir)
}

// stampIn is stamp for a directory in parent.
func (w *Writer) stampIn(parent *confined.Dir, dir string, files map[string]string) stamps {
	d, err := parent.Enter(path.Base(dir))
	if err != nil {
		return nil
	}
	defer d.Close() //nolint:errcheck // a directory
	return w.stamp(d, files)
}

// stamp returns the stamps of a directory and its files. It returns nil if one of them does not exist,
// has just been changed, is not as this package wants it, or has a fault.
func (w *Writer) stamp(d *confined.Dir, files map[string]string) stamps {
	all, now := make(stamps, 1+len(files)), time.Now()
	add := func(name string) bool {
		s, err := d.Stamp(path.Base(name))
		all[name] = s
		return err == nil && s.IsSettled(now)
	}
	if !add(".") {
		return nil
	}
	for name, content := range files {
		if f := w.files[name]; f.content != content || f.failed || f.fault != "" || !add(name) {
			return nil
		}
	}
	return all
}

// hasTurn reports whether this check reads the files of a directory in any case.
func (w *Writer) hasTurn(dir string) bool {
	h := fnv.New32a()
	_, _ = io.WriteString(h, dir)
	return (int(h.Sum32())+w.checks)%readTurns == 0
}
