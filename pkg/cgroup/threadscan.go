package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// ThreadScan is a Gather without bounds on threads, in turns: it moves the threads of a cgroup and of all cgroups
// below it. It is for goroutines that may take long. Between turns it keeps directories open, at most two for each
// level. One goroutine can use it.
type ThreadScan struct {
	g      *gathering // nil if the tree has no threads that may be moved
	path   Path
	begun  bool
	total  int // cgroups so far
	levels []scanLevel
}

// scanLevel is a cgroup with children that are not visited.
type scanLevel struct {
	path  Path
	dir   fs.ReadDirFile // nil if names has all children
	names []string
}

const (
	// maxScanDepth is the maximum number of levels below the first cgroup that are read. The kernel allows any depth.
	maxScanDepth = 64
	// maxScanCgroups is the maximum number of cgroups in a scan, so that a scan ends while others make cgroups.
	maxScanCgroups = 1 << 20
	// threadsPerCgroup is the number of threads that take as long as a cgroup.
	threadsPerCgroup = 64
)

// ScanThreads returns a scan of p that has not begun.
func (f *FS) ScanThreads(p Path) *ThreadScan {
	s := &ThreadScan{g: f.Reader().gathering(), path: p}
	if s.g != nil {
		s.g.limited = false
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
	if !s.begun {
		s.begun = true
		s.visit(s.path)
	}
	for ctx.Err() == nil {
		if len(s.levels) == 0 {
			return true
		}
		if s.g.cgroups+s.g.asked/threadsPerCgroup >= n {
			return false
		}
		if p, ok := s.next(); ok {
			s.visit(p)
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
	for len(s.levels) > 0 {
		s.pop()
	}
	if s.g != nil {
		s.g.r.Rest()
	}
}

// visit moves the threads of p, and goes into p if it has children.
func (s *ThreadScan) visit(p Path) {
	s.g.cgroups++
	s.total++
	o, err := s.g.r.open(p)
	if err != nil {
		s.g.fail(err)
		return
	}
	if err := s.g.cgroup(&o); err != nil {
		s.g.fail(err)
	}
	if o.dir != nil && o.dir.Leaf() {
		return
	}
	level := scanLevel{path: p}
	if o.dir == nil {
		level.names, err = s.g.r.fs.tree.ReadDir(p.name())
	} else {
		level.dir, err = o.dir.List()
	}
	switch {
	case err != nil:
		s.g.fail(o.cannotList(err))
	case len(s.levels) >= maxScanDepth && (level.dir != nil || len(level.names) > 0):
		s.g.fail(&Error{Op: opList, Path: string(p), Err: fmt.Errorf("deeper than %d levels", maxScanDepth)})
		if level.dir != nil {
			level.dir.Close() //nolint:errcheck,gosec // opened to read
		}
	default:
		s.levels = append(s.levels, level)
	}
}

// next returns the next child of the deepest level. Without one it leaves the level.
func (s *ThreadScan) next() (p Path, ok bool) {
	level := &s.levels[len(s.levels)-1]
	if s.total >= maxScanCgroups {
		s.g.fail(&Error{Op: opList, Path: string(s.path), Err: fmt.Errorf("more than %d cgroups", maxScanCgroups)})
		for len(s.levels) > 0 {
			s.pop()
		}
		return "", false
	}
	if len(level.names) > 0 {
		p, level.names = level.path.Join(level.names[0]), level.names[1:]
		return p, true
	}
	if level.dir == nil {
		s.pop()
		return "", false
	}
	var err error
	level.names, err = appendDirectories(level.names[:0], level.dir)
	if err != nil {
		if !errors.Is(err, io.EOF) {
			s.g.fail(&Error{Op: opList, Path: string(level.path), Err: goneOr(err)})
		}
		level.dir.Close() //nolint:errcheck,gosec // opened to read
		level.dir = nil
	}
	return "", false
}

// pop leaves the deepest level.
func (s *ThreadScan) pop() {
	last := len(s.levels) - 1
	if dir := s.levels[last].dir; dir != nil {
		dir.Close() //nolint:errcheck,gosec // opened to read
	}
	s.levels = s.levels[:last]
}
