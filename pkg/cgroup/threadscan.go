package cgroup

import (
	"context"
	"fmt"
	"iter"
)

// ThreadScan is a Gather without bounds on threads, in turns: it moves the threads of a cgroup and of all cgroups
// below it. It is for goroutines that may take long. Between turns it keeps directories open, at most two for each
// level. One goroutine can use it.
type ThreadScan struct {
	g     *gathering // nil if the tree has no threads that may be moved
	total int        // cgroups so far
	next  func() (struct{}, bool)
	stop  func()
}

const (
	maxScanDepth     = 64      // maximum number of levels below the first cgroup that are read. The kernel allows any depth.
	maxScanCgroups   = 1 << 20 // maximum number of cgroups in a scan, so that a scan ends while others make cgroups
	threadsPerCgroup = 64      // number of threads that take as long as a cgroup
)

// ScanThreads returns a scan of p that has not begun.
func (f *FS) ScanThreads(p Path) *ThreadScan {
	s := &ThreadScan{g: f.Reader().gathering()}
	if s.g != nil {
		s.g.limited = false
		s.next, s.stop = iter.Pull(func(yield func(struct{}) bool) { s.tree(p, 0, yield) })
	}
	return s
}

// Next goes on with the scan, for the work of about n cgroups or until ctx ends. A list of threads is read as a
// whole. Next reports whether the scan is over.
func (s *ThreadScan) Next(ctx context.Context, n int) (done bool) {
	if s.g == nil {
		return true
	}
	for i := range s.g.r.held { // the CPUs of the open cgroups are read again
		s.g.r.held[i].known = false
	}
	s.g.stop, s.g.asked, s.g.cgroups = ctx.Err, 0, 0
	for ctx.Err() == nil {
		if _, more := s.next(); !more && ctx.Err() == nil {
			return true
		}
		if s.g.cgroups+s.g.asked/threadsPerCgroup >= n {
			return false
		}
	}
	return false
}

// Found returns the result so far.
func (s *ThreadScan) Found() Gathered {
	if s.g == nil {
		return Gathered{}
	}
	return s.g.Gathered
}

// Close closes the directories.
func (s *ThreadScan) Close() {
	if s.g != nil {
		s.stop()
		s.g.r.Rest()
	}
}

// tree moves the threads of p and of the cgroups in it. It yields before each cgroup but the first, and
// returns false if the scan ends.
func (s *ThreadScan) tree(p Path, depth int, yield func(struct{}) bool) bool {
	if s.total > 0 && !yield(struct{}{}) {
		return false
	}
	s.g.cgroups++
	s.total++
	o, err := s.g.r.open(p)
	if err != nil {
		s.g.fail(err)
		return true
	}
	if err := s.g.cgroup(&o); err != nil {
		s.g.fail(err)
	}
	if o.isLeaf() {
		return true
	}
	more := true
	err = o.each(func(name string) bool {
		switch {
		case depth >= maxScanDepth:
			s.g.fail(&Error{Op: opList, Path: string(p), Err: fmt.Errorf("deeper than %d levels", maxScanDepth)})
			return false
		case s.total >= maxScanCgroups:
			s.g.fail(&Error{Op: opList, Path: string(p), Err: fmt.Errorf("more than %d cgroups", maxScanCgroups)})
			more = false
		default:
			more = s.tree(p.Join(name), depth+1, yield)
		}
		return more
	})
	if err != nil {
		s.g.fail(err)
	}
	return more
}
