// Package annotations selects the annotations of pods that the daemon reads. The clients of
// the runtime drop all others. The annotations of one pod can have 256 KiB (apimachinery,
// TotalAnnotationSizeLimitB), so the annotations of a full node exceed the memory of the
// daemon. The state is the set of names that CRI-O's configuration adds; it only grows.
package annotations

import (
	"maps"
	"sync/atomic"

	"github.com/cpupoold/cpupoold/internal/node/managers"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// Filter selects annotations. Learn and NoteReread are not safe for concurrent use.
type Filter struct {
	names     workload.Names
	workloads atomic.Pointer[map[string]bool] // activation annotations of CRI-O's workloads. Learn replaces the map
	stale     bool                            // pods that were read before a new name can lack its annotation
}

// New returns a filter for annotations with the names of the configuration.
func New(names workload.Names) *Filter {
	f := &Filter{names: names}
	f.workloads.Store(&map[string]bool{})
	return f
}

// Reads reports whether the daemon reads a pod annotation of this name.
func (f *Filter) Reads(key string) bool {
	return pools.ReadsAnnotation(f.names, key) || managers.ReadsAnnotation(key) || (*f.workloads.Load())[key]
}

// Learn adds the names that a configuration of CRI-O contains. It reports whether pods that
// were read before can lack an annotation. That is so from a new name until NoteReread. One
// goroutine at a time calls the two methods.
func (f *Filter) Learn(crio managers.CRIO) bool {
	known := *f.workloads.Load()
	next := maps.Clone(known)
	for _, w := range crio.Workloads {
		if w.Activation != "" {
			next[w.Activation] = true
		}
	}
	if len(next) != len(known) {
		f.workloads.Store(&next)
		f.stale = true
	}
	return f.stale
}

// NoteReread states that all pods have been read since the last call of Learn.
func (f *Filter) NoteReread() { f.stale = false }
