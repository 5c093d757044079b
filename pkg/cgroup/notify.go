package cgroup

import (
	"errors"
	"io/fs"
	"slices"
	"sync"
	"time"
)

// ChangeKind is what has happened.
type ChangeKind uint8

const (
	// Written says that somebody has written the file Name of a cgroup, whether or
	// not that changed anything. An empty Name stands for all files: what happened
	// before the watch is not known.
	Written ChangeKind = iota + 1
	// Appeared says that the child Name of a cgroup is there.
	Appeared
	// Gone says that it is not any more.
	Gone
	// Overflow says that changes have been lost, and all watches with them. The next
	// Set makes them again.
	Overflow
)

// Change is something that has happened to a cgroup since the last Take. Any
// number of them to the same file is one.
type Change struct {
	Kind ChangeKind
	Path Path
	Name string
	At   time.Time // when the first of them was seen
}

// maxChanges bounds what waits to be taken: as the kernel's queue does by default
// (fs.inotify.max_queued_events). Beyond it is an Overflow.
const maxChanges = 16384

// ErrNotWatchable means that a Tree is no Notifier.
var ErrNotWatchable = errors.New("this cgroup tree does not tell of changes")

// Watcher tells of changes in a set of cgroups. Writes of one's own are told of as
// well: the file has to be compared with what it should be anyway. Its methods can
// be called by several goroutines.
type Watcher struct {
	fs      *FS
	notices Notices
	wake    func()
	ended   chan struct{}

	mu      sync.Mutex // guards what follows
	wanted  map[Path]interest
	watched map[Path]bool // a subset of wanted
	missing map[Path]bool // not there when their parents were asked
	// files and parents are those of the last Set. Settled says that all of them are watched
	// or missing, and that nothing has come or gone since: the same Set would do nothing.
	files, parents []Path
	settled        bool
	pending        []Change
	index          map[changeKey]int // of pending
	err            error
}

// interest is what matters in a cgroup. Without either, only whether children that
// are wanted themselves come and go.
type interest struct {
	files, children bool
}

type changeKey struct {
	file       bool
	path       Path
	name       string
	overflowed bool
}

// Watch makes a Watcher. It calls wake, from a goroutine of its own, when there is
// something to take; wake must not wait for anything.
func (f *FS) Watch(wake func()) (*Watcher, error) {
	n, ok := f.tree.(Notifier)
	if !ok {
		return nil, ErrNotWatchable
	}
	notices, err := n.Notify()
	if err != nil {
		return nil, err
	}
	w := &Watcher{
		fs: f, notices: notices, wake: wake, ended: make(chan struct{}),
		watched: make(map[Path]bool), missing: make(map[Path]bool), index: make(map[changeKey]int),
	}
	go w.run()
	return w, nil
}

// Close ends the watch and waits for the last call of wake.
func (w *Watcher) Close() error {
	err := w.notices.Close()
	<-w.ended
	return err
}

// Ended is closed when the watch has ended: by Close, or by itself.
func (w *Watcher) Ended() <-chan struct{} { return w.ended }

// Err is why the watch has ended, nil before that.
func (w *Watcher) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Take returns the changes since the last Take, the oldest first. An error is the
// end of the watch; what was lost with it is not known.
func (w *Watcher) Take() ([]Change, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	changes := w.pending
	w.pending = nil
	clear(w.index)
	return changes, w.err
}

// Set says which cgroups are watched: of files those in which writes to files of
// the cpu and cpuset controllers matter, of parents those in which it matters that
// children come and go. That of cgroups that are watched themselves is always told.
// Cgroups that are not there (yet) are no error. What may have happened before a
// new watch stood is told as if it had happened after it.
//
// When the kernel takes no more watches the error names the sysctl; those that
// stand remain.
func (w *Watcher) Set(files, parents []Path) error {
	if w.same(files, parents) {
		return nil
	}
	wanted := make(map[Path]interest, len(files)+len(parents))
	for _, of := range [][]Path{files, parents} {
		for _, p := range of {
			for above := p.Parent(); ; above = above.Parent() { // its end, and its beginning, are told of there
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

// same says that a Set would do nothing: nearly all that follow a pass do not.
func (w *Watcher) same(files, parents []Path) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.settled && slices.Equal(files, w.files) && slices.Equal(parents, w.parents)
}

// Settled says that all of the last Set is watched, or will be told of when it comes, and that
// nothing has come or gone since.
func (w *Watcher) Settled() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.settled
}

// Hears says what of a cgroup is told: writes to its files, and its children that come and go.
func (w *Watcher) Hears(p Path) (files, children bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.watched[p] {
		return false, false
	}
	return w.wanted[p].files, w.wanted[p].children
}

// set follows a change of what is wanted. It says whether there is something to
// take now.
func (w *Watcher) set(wanted map[Path]interest) (news bool, err error) {
	before := len(w.pending)
	old := w.wanted
	w.wanted = wanted
	for p := range w.watched {
		if _, still := wanted[p]; !still {
			w.drop(p)
		}
	}
	for p := range w.missing {
		if _, still := wanted[p]; !still {
			delete(w.missing, p)
		}
	}
	var due []Path
	for p, i := range wanted {
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
		w.missing[p] = true // until a parent tells that it, or what it is in, is there
	default:
		w.settled = false // it is asked for again
	}
	return nil
}

// catchUp tells of what may have happened before the watch.
func (w *Watcher) catchUp(p Path, i interest) {
	if i.files {
		w.note(Change{Kind: Written, Path: p})
	}
	if !i.children {
		return
	}
	children, err := w.fs.Children(p)
	if err != nil {
		return // it is gone, and its parent tells
	}
	for _, child := range children {
		w.note(Change{Kind: Appeared, Path: p, Name: child.Base()})
	}
}

func (w *Watcher) drop(p Path) {
	w.notices.Remove(p.name())
	delete(w.watched, p)
	w.settled = false
	clear(w.missing) // what was missing in it is to be asked for again
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

// take notes what was told and says whether it matters.
func (w *Watcher) take(n Notice, err error) bool {
	if err != nil {
		w.err = err
		return true
	}
	if n.Kind == Overflow || len(w.pending) >= maxChanges {
		w.overflow()
		return true
	}
	dir := Path(n.Dir)
	if n.Dir == "." {
		dir = ""
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
		clear(w.missing) // what is in it may be there, too
	}
	if w.watched[child] {
		// Another of the same name has no watch; of one that is gone, it stays.
		w.drop(child)
	}
	if !own && !w.wanted[dir].children {
		return false
	}
	w.note(Change{Kind: n.Kind, Path: dir, Name: n.Name})
	return true
}

// controlFile says whether a file is one of those that the daemon writes, or keeps it
// from writing.
func controlFile(name string) bool {
	switch name {
	case FileCPUs, FileMems, FileWeight, "cpu.weight.nice", FileMax, "cpu.idle", FilePartition, FileExclusive:
		return true
	}
	return false
}

// note adds a change, unless it waits already. Of a child that comes and goes the
// last word counts.
func (w *Watcher) note(c Change) {
	key := changeKey{file: c.Kind == Written, path: c.Path, name: c.Name, overflowed: c.Kind == Overflow}
	if i, waits := w.index[key]; waits {
		w.pending[i].Kind = c.Kind
		return
	}
	c.At = time.Now()
	w.index[key] = len(w.pending)
	w.pending = append(w.pending, c)
}

// overflow forgets everything: what was lost may have been the end of a cgroup, or
// another one of the same name.
func (w *Watcher) overflow() {
	w.settled = false
	for p := range w.watched {
		w.drop(p)
	}
	w.pending = nil
	clear(w.index)
	w.note(Change{Kind: Overflow})
}
