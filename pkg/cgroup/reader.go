package cgroup

import (
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Directories is a [Tree] whose directories can be held open over several reads. Their
// path is looked up once, and all reads are of one cgroup, even if another cgroup of that
// name replaces it.
type Directories interface {
	// OpenRoot opens the root of the tree.
	OpenRoot() (Dir, error)
}

// Dir is an open directory. A name is the name of an entry: neither a path nor a link.
type Dir interface {
	OpenDir(name string) (Dir, error)
	// ReadParts reads a file of any size into buffer, and calls visit with each part, until an
	// error.
	ReadParts(name string, buffer []byte, visit func(part []byte) error) error
	// ReadValue appends the whole of a file to data. The kernel must print the file in one piece, as all but the
	// lists of processes and threads. ReadValue returns an error if data has more than limit bytes then.
	ReadValue(name string, data []byte, limit int) ([]byte, error)
	// Leaf reports that the directory has no subdirectory; false if that is unknown.
	Leaf() bool
	// Directories calls visit with the names of the directories in it, in any order, until visit returns false.
	Directories(visit func(name string) bool) error
	Close() error
}

// Reader reads several cgroups, each as [FS.Read] and [FS.Gather] do. A cgroup near the
// previous one takes fewer system calls: the Reader holds directories open, and caches the
// CPUs of the parent. After Rest it sees new cgroups of the same name, and changes of
// cached values. A Reader is for one goroutine.
type Reader struct {
	fs          *FS
	held        []heldDir // open directories from the root down, each in the previous one
	value, list []byte    // of the last file; a list is parsed while values are read
	sets        map[string]cpuset.Set
	gather      *gathering // nil before the first use
}

type heldDir struct {
	Dir
	name string
	// effective are the CPUs of its tasks, if known: read once for its threads and for
	// its children.
	known     bool
	effective cpuset.Set
}

// maxSets is the maximum number of lists of CPUs in the cache: a node has few different
// lists.
const maxSets = 256

// Reader returns a new Reader. It opens no file before its first read.
func (f *FS) Reader() *Reader { return &Reader{fs: f} }

// Rest closes the directories. The Reader can go on.
func (r *Reader) Rest() { r.leave(0) }

// leave closes all directories but so many.
func (r *Reader) leave(n int) {
	for _, h := range slices.Backward(r.held[n:]) {
		_ = h.Close() // it was opened to read
	}
	r.held = slices.Delete(r.held, n, len(r.held))
}

type opened struct {
	*Reader
	path Path
	dir  *heldDir // nil if the tree has no directories
}

// open opens a cgroup to read it. In a tree without Directories, the first read notices a
// missing cgroup.
func (r *Reader) open(p Path) (opened, error) {
	o := opened{Reader: r, path: p}
	all, ok := r.fs.tree.(Directories)
	if !ok {
		return o, nil
	}
	err := p.validate()
	if err == nil {
		o.dir, err = r.descend(all, p)
	}
	if err != nil {
		return opened{}, &Error{Op: opRead, Path: string(p), Err: goneOr(err)}
	}
	return o, nil
}

// descend opens the directories on the way to a valid path that are not open yet. Deeper
// directories stay open: the next read may need them.
func (r *Reader) descend(all Directories, p Path) (*heldDir, error) {
	if len(r.held) == 0 {
		root, err := all.OpenRoot()
		if err != nil {
			return nil, err
		}
		r.held = append(r.held, heldDir{Dir: root})
	}
	depth := 0
	for rest := string(p); rest != ""; {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		above := r.held[depth].Dir
		if depth++; depth < len(r.held) && r.held[depth].name == name {
			continue
		}
		r.leave(depth)
		dir, err := above.OpenDir(name)
		if err != nil {
			return nil, err
		}
		r.held = append(r.held, heldDir{Dir: dir, name: name})
	}
	return &r.held[depth], nil
}

// read returns the content of a file that the kernel prints in one piece, until the next
// one is read.
func (o *opened) read(file string) ([]byte, error) {
	if o.dir == nil {
		return o.fs.ReadFile(o.path, file)
	}
	data, err := o.dir.ReadValue(file, o.value[:0], maxFile)
	if err != nil {
		return nil, o.failed(file, err)
	}
	o.value = data
	return data, nil
}

// listBuffer is the size of the parts of a list: the kernel returns at most a page at once.
const listBuffer = 4096

// readParts calls visit with the parts of a list of threads, until an error.
func (o *opened) readParts(file string, visit func(part []byte) error) error {
	if o.list == nil {
		o.list = make([]byte, listBuffer)
	}
	if o.dir != nil {
		if err := o.dir.ReadParts(file, o.list, visit); err != nil {
			return o.failed(file, err)
		}
		return nil
	}
	tree, ok := o.fs.tree.(interface {
		ReadParts(name string, buffer []byte, visit func(part []byte) error) error
	})
	if !ok {
		data, err := o.fs.ReadFile(o.path, file)
		if err == nil {
			err = visit(data)
		}
		return err
	}
	name, err := o.path.file(file)
	if err == nil {
		err = tree.ReadParts(name, o.list, visit)
	}
	if err != nil {
		return &Error{Op: opRead, Path: name, Err: o.fs.cause(o.path, err)}
	}
	return nil
}

// failed is FS.cause in an open directory.
func (o *opened) failed(file string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		err = goneOr(err)
	} else if _, gone := o.dir.ReadValue("cgroup.controllers", nil, maxFile); gone != nil {
		err = goneOr(gone)
	} else {
		err = ErrNoController
	}
	return &Error{Op: opRead, Path: o.path.name() + "/" + file, Err: err}
}

// children returns at most limit cgroups in p, sorted, and reports whether there are more.
func (r *Reader) children(p Path, limit int) (all []Path, more bool, _ error) {
	o, err := r.open(p)
	if err != nil || o.isLeaf() {
		return nil, false, err
	}
	var names []string // allocated below the return for a leaf, as nearly all cgroups are
	isCut := false
	err = o.each(func(name string) bool {
		if isCut = len(names) == limit; !isCut {
			names = append(names, name)
		}
		return !isCut
	})
	if err != nil {
		return nil, false, err
	}
	return p.children(names), isCut, nil
}

// isLeaf reports whether no cgroup is in o; false if that is unknown.
func (o *opened) isLeaf() bool { return o.dir != nil && o.dir.Leaf() }

// each calls visit with the names of the cgroups in o, until visit returns false.
func (o *opened) each(visit func(name string) bool) (err error) {
	if o.dir != nil {
		err = o.dir.Directories(visit)
	} else {
		var names []string
		names, err = o.fs.tree.ReadDir(o.path.name())
		for _, name := range slices.Sorted(slices.Values(names)) {
			if !visit(name) {
				break
			}
		}
	}
	if err != nil {
		return &Error{Op: opList, Path: string(o.path), Err: goneOr(err)}
	}
	return nil
}

// readValue reads one file and names it in the error when it makes no sense. The value must
// not refer to the bytes that it is made of.
func readValue[T any](o *opened, file string, parse func([]byte) (T, error)) (value T, err error) {
	data, err := o.read(file)
	if err != nil {
		return value, err
	}
	if value, err = parse(data); err != nil {
		err = &Error{Op: opRead, Path: string(o.path.Join(file)), Err: err}
	}
	return value, err
}

// readCPUs is readValue for a list of CPUs or nodes. It caches parsed lists, because most
// lists on a node are equal.
func (o *opened) readCPUs(file string) (cpuset.Set, error) {
	return readValue(o, file, func(data []byte) (cpuset.Set, error) {
		if set, seen := o.sets[string(data)]; seen {
			return set, nil
		}
		set, err := parseCPUs(data)
		if err == nil {
			if len(o.sets) >= maxSets || o.sets == nil {
				o.sets = make(map[string]cpuset.Set)
			}
			o.sets[string(data)] = set
		}
		return set, err
	})
}

// readOne is readValue for a cgroup with a single read.
func readOne[T any](f *FS, p Path, file string, parse func([]byte) (T, error)) (value T, err error) {
	r := f.Reader()
	defer r.Rest()
	o, err := r.open(p)
	if err != nil {
		return value, err
	}
	return readValue(&o, file, parse)
}
