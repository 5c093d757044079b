package cgroup

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"time"
)

// ChangeKind is the kind of a change.
type ChangeKind uint8

const (
	// Written reports that a process has written the file Name of a cgroup, perhaps with the same
	// value. An empty Name means all files: changes before the watch are unknown.
	Written ChangeKind = iota + 1
	// Appeared reports that a cgroup has a child Name.
	Appeared
	// Gone reports that child Name no longer exists.
	Gone
	// Overflow reports lost changes. All watches are removed; the next Set adds them again.
	Overflow
	// Flooded reports that a cgroup has lost its watch because of too many notices. All its files
	// are reported as written once a second, until a Set watches it again.
	Flooded
)

// Change is a change of a cgroup since the last Take. Several changes of one file are one.
type Change struct {
	Kind ChangeKind
	Path Path
	Name string
	At   time.Time // when the Watcher saw the first of them
}

// maxChanges is the maximum number of changes that wait for Take. It is the default length of
// the kernel's queue (fs.inotify.max_queued_events). More changes are an Overflow.
const maxChanges = 16384

// ErrNotWatchable is the error of a Tree that is no Notifier.
var ErrNotWatchable = errors.New("this cgroup tree does not report changes")

// Watcher reports changes in a set of cgroups, including the caller's own writes. It limits the
// work that one cgroup can cause with many notices (flood.go). All methods are safe for
// concurrent use.
type Watcher struct {
	fs      *FS
	notices Notices
	wake    func()
	clock   func() time.Time
	ended   chan struct{}

	mu      sync.Mutex // guards the fields below
	wanted  map[Path]interest
	watched map[Path]bool // a subset of wanted
	missing map[Path]bool // did not exist when their parents were read
	floods  floods
	// files and parents are the arguments of the last Set. Settled is true if each of them is
	// watched, missing or muted, and no child has appeared or disappeared since. Then the same
	// Set has no effect.
	files, parents []Path
	settled        bool
	pending        []Change
	index          map[changeKey]int // the position in pending
	err            error
}

// interest selects the changes of a cgroup that are reported. The zero value selects only
// children that are watched themselves.
type interest struct {
	files, children bool
}

type changeKey struct {
	path Path
	name string
	kind ChangeKind // Appeared for Gone, too
}

// Watch returns a Watcher without watches. Its goroutine calls wake when there are changes to
// take, and clock for their times; wake must not block.
func (f *FS) Watch(wake func(), clock func() time.Time) (*Watcher, error) {
	n, ok := f.tree.(Notifier)
	if !ok {
		return nil, ErrNotWatchable
	}
	notices, err := n.Notify()
	if err != nil {
		return nil, err
	}
	w := &Watcher{
		fs: f, notices: notices, wake: wake, clock: clock, ended: make(chan struct{}),
		watched: make(map[Path]bool), missing: make(map[Path]bool), index: make(map[changeKey]int),
		floods: floods{counts: make(map[Path]*noticeCount)},
	}
	go w.run()
	return w, nil
}

// Close ends the Watcher and waits for the last call of wake.
func (w *Watcher) Close() error {
	err := w.notices.Close()
	<-w.ended
	return err
}

// Ended returns a channel that is closed when the Watcher has ended, by Close or by an error.
func (w *Watcher) Ended() <-chan struct{} { return w.ended }

// Err returns the reason why the Watcher has ended, and nil before.
func (w *Watcher) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Take returns the changes since the last Take, the oldest first. Between two reports of an
// Overflow is a pause that grows with each report, up to longest. After an error the Watcher
// has ended, and the lost changes are unknown.
func (w *Watcher) Take(longest time.Duration) ([]Change, error) {
	now := w.clock()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pollMuted(now)
	if w.floods.reportLoss(now, longest) {
		w.overflow()
	}
	changes := w.pending
	w.pending = nil
	clear(w.index)
	return changes, w.err
}

// Set replaces the watched cgroups. The Watcher reports writes to files of the cpu and cpuset
// controllers in files, and children that appear or disappear in parents. It always reports
// these of cgroups that are watched themselves. A missing cgroup is no error. Changes before a
// new watch are reported as if they came after it.
//
// If the kernel accepts no more watches, the error names the sysctl, and the watches so far
// remain.
func (w *Watcher) Set(files, parents []Path) error {
	w.mu.Lock()
	same := w.settled && slices.Equal(files, w.files) && slices.Equal(parents, w.parents)
	w.mu.Unlock()
	if same { // which holds after most passes
		return nil
	}
	wanted := make(map[Path]interest, len(files)+len(parents))
	for _, of := range [][]Path{files, parents} {
		for _, p := range of {
			for above := p.Parent(); ; above = above.Parent() { // it appears and disappears there
				if _, already := wanted[above]; already {
					break
				}
				if wanted[above] = (interest{}); above == "" {
					break
				}
			}
		}
	}
	for _, p := range files {
		wanted[p] = interest{files: true}
	}
	for _, p := range parents {
		wanted[p] = interest{files: wanted[p].files, children: true}
	}
	w.mu.Lock()
	w.files, w.parents, w.settled = slices.Clone(files), slices.Clone(parents), true
	news, err := w.set(wanted)
	w.settled = w.settled && err == nil
	w.mu.Unlock()
	if news {
		w.wake()
	}
	return err
}

// Settled reports whether a repeated Set has no effect: each cgroup of the last one is watched,
// missing or muted, and no child has appeared or disappeared since.
func (w *Watcher) Settled() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.settled
}

// Reports returns which changes of a cgroup are reported: writes to its files, and its children.
func (w *Watcher) Reports(p Path) (files, children bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.watched[p] {
		return false, false
	}
	return w.wanted[p].files, w.wanted[p].children
}

// set replaces the wanted cgroups. It reports whether there are new changes to take.
func (w *Watcher) set(wanted map[Path]interest) (news bool, err error) {
	before := len(w.pending)
	old := w.wanted
	w.wanted = wanted
	unwanted := func(p Path) bool {
		_, still := wanted[p]
		return !still
	}
	for p := range w.watched {
		if unwanted(p) {
			w.drop(p)
		}
	}
	maps.DeleteFunc(w.missing, func(p Path, _ bool) bool { return unwanted(p) })
	maps.DeleteFunc(w.floods.counts, func(p Path, _ *noticeCount) bool { return unwanted(p) })
	var due []Path
	for p, i := range wanted {
		if w.floods.isMuted(p) {
			continue
		}
		if !w.watched[p] && !w.missing[p] {
			due = append(due, p)
		} else if w.watched[p] && i != old[p] {
			w.catchUp(p, i)
		}
	}
	slices.Sort(due) // a parent before its children
	for _, p := range due {
		if err = w.add(p); err != nil {
			break
		}
	}
	return len(w.pending) > before, err
}

func (w *Watcher) add(p Path) error {
	err := w.notices.Add(p.name())
	switch {
	case err == nil:
		w.watched[p] = true
		w.catchUp(p, w.wanted[p])
	case !errors.Is(err, fs.ErrNotExist):
		return err
	case p != "" && (w.watched[p.Parent()] || w.missing[p.Parent()]):
		w.missing[p] = true // until a cgroup above appears, or the cgroup itself
	default:
		w.settled = false // the next Set tries again
	}
	return nil
}

// catchUp reports the possible changes before the watch.
func (w *Watcher) catchUp(p Path, i interest) {
	if i.files {
		w.note(Change{Kind: Written, Path: p})
	}
	if !i.children {
		return
	}
	children, err := w.fs.Children(p)
	if err != nil {
		return // it is gone, which its parent reports
	}
	for _, child := range children {
		w.note(Change{Kind: Appeared, Path: p, Name: child.Base()})
	}
}

func (w *Watcher) drop(p Path) {
	w.notices.Remove(p.name())
	delete(w.watched, p)
	w.settled = false
	clear(w.missing) // a cgroup that was missing in it needs another attempt
}

func (w *Watcher) run() {
	defer close(w.ended)
	for {
		n, err := w.notices.Next()
		w.mu.Lock()
		news := w.take(n, err)
		w.mu.Unlock()
		if news {
			w.wake()
		}
		if err != nil {
			return
		}
	}
}

// take records a notice, and reports whether there are new changes to take.
func (w *Watcher) take(n Notice, err error) bool {
	if err != nil {
		w.err = err
		return true
	}
	if n.Kind == Overflow || len(w.pending) >= maxChanges {
		known := w.floods.lost
		w.floods.lost = true
		return !known
	}
	dir := Path(n.Dir)
	if n.Dir == "." {
		dir = ""
	}
	if w.floods.isMuted(dir) {
		return false // it was queued before the mute
	}
	if i := w.wanted[dir]; i.files && !i.children {
		if now := w.clock(); w.floods.exceeds(dir, now) {
			w.mute(dir, now)
			return true
		}
	}
	if n.Kind == Written {
		if !w.wanted[dir].files || !controlFile(n.Name) {
			return false
		}
		w.note(Change{Kind: Written, Path: dir, Name: n.Name})
		return true
	}
	child := dir.Join(n.Name)
	w.settled = false
	_, own := w.wanted[child]
	if w.missing[child] {
		clear(w.missing) // the cgroups in it may exist, too
	}
	if w.watched[child] {
		// A new directory of the same name has no watch. The watch of a deleted one stays.
		w.drop(child)
	}
	delete(w.floods.counts, child)
	if !own && !w.wanted[dir].children {
		return false
	}
	w.note(Change{Kind: n.Kind, Path: dir, Name: n.Name})
	return true
}

// controlFile reports whether the daemon writes a file, or whether the file prevents a write.
func controlFile(name string) bool {
	switch name {
	case FileCPUs, FileMems, FileWeight, "cpu.weight.nice", FileMax, "cpu.idle", FilePartition, FileExclusive:
		return true
	}
	return false
}

// note adds a change to pending, unless it is there. Of the notices of one child the last counts.
func (w *Watcher) note(c Change) {
	key := changeKey{path: c.Path, name: c.Name, kind: c.Kind}
	if c.Kind == Gone {
		key.kind = Appeared
	}
	if i, waits := w.index[key]; waits {
		w.pending[i].Kind = c.Kind
		return
	}
	c.At = w.clock()
	w.index[key] = len(w.pending)
	w.pending = append(w.pending, c)
}

// overflow reports an Overflow and ends all watches: a lost notice can be the end of a cgroup,
// or another cgroup of the same name. Muted cgroups stay muted.
func (w *Watcher) overflow() {
	w.settled = false
	for p := range w.watched {
		w.drop(p)
	}
	w.pending = nil
	clear(w.index)
	w.note(Change{Kind: Overflow})
}
