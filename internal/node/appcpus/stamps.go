package appcpus

import (
	"hash/fnv"
	"io"
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

// stamp returns the stamps of a directory and its files. It returns nil if one of them does not exist,
// has just been changed, is not as this package wants it, or has a fault.
func (w *Writer) stamp(parent *confined.Dir, dir string, files map[string]string) stamps {
	all, now := make(stamps, 1+len(files)), time.Now()
	add := func(name string, names ...string) bool {
		s, err := parent.Stamp(names...)
		all[name] = s
		return err == nil && s.IsSettled(now)
	}
	if !add(".", path.Base(dir)) {
		return nil
	}
	for name, content := range files {
		if w.content[name] != content || w.failed[name] || w.faults[name] != "" || !add(name, path.Base(dir), path.Base(name)) {
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
