package daemon

import (
	"iter"
	"maps"

	"github.com/cpupoold/cpupoold/internal/node/appcpus"
)

// renderings are the files of entries, which are made anew only for those that say
// something else than before: with each container that comes or goes all others stay
// as they are.
type renderings map[told]*rendering

// told is who is told its CPUs: a container or a unit.
type told struct{ podUID, container, unit string }

// rendering is what an entry has been made to.
type rendering struct {
	entry appcpus.Entry
	files map[string]string // content by name
	err   error             // no file can have its name
	kept  bool              // the entry is there still
}

func (x *applicationEntry) told() told { return told{x.PodUID, x.Container, x.Unit} }

// of makes the renderings those of entries.
func (r renderings) of(entries []applicationEntry) {
	for i := range entries {
		e := &entries[i]
		is := r[e.told()]
		if is == nil || !is.entry.Equal(e.Entry) {
			is = &rendering{entry: e.Entry, files: make(map[string]string, 1)}
			is.err = e.Render(is.files)
			r[e.told()] = is
		}
		is.kept = true
	}
	maps.DeleteFunc(r, func(_ told, is *rendering) bool {
		gone := !is.kept
		is.kept = false
		return gone
	})
}

// same says that entries are those that the files were made of.
func (a *applications) same(entries iter.Seq[applicationEntry]) bool {
	i := 0
	for e := range entries {
		if i == len(a.entries) || !e.equal(a.entries[i]) {
			return false
		}
		i++
	}
	return i == len(a.entries)
}
