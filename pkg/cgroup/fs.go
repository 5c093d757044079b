package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"syscall"
)

// maxFile bounds what is read of one file. The largest that matter are CPU
// lists: 8192 CPUs without two neighbours take less than 20 KiB.
const maxFile = 1 << 20

// Tree is the access to files that FS needs. Names are slash-separated and
// relative to the cgroup2 mount; "." is its root. Errors wrap the kernel's errno
// for errors.Is.
type Tree interface {
	// ReadFile returns the whole file, or an error if it has more than limit
	// bytes.
	ReadFile(name string, limit int) ([]byte, error)
	// WriteFile writes value to an existing file with a single write(2). It never
	// creates or truncates one.
	WriteFile(name, value string) error
	// ReadDir returns the names of the directories in a directory, in any order.
	ReadDir(name string) ([]string, error)
	// Mkdir makes a directory in one that exists, Rmdir removes one without
	// children and processes.
	Mkdir(name string) error
	Rmdir(name string) error
}

// FS reads and writes the cgroups below one cgroup2 mount. It holds no state
// but the open root directory, and can be used by several goroutines.
type FS struct {
	tree     Tree
	readOnly bool // writes return ErrReadOnly
}

// New makes an FS of a tree that is known to be cgroup v2. Open is for the
// kernel's.
func New(tree Tree) *FS { return &FS{tree: tree} }

// ReadOnly returns an FS of the same cgroups without write access: writes return ErrReadOnly,
// and Gather moves no threads.
func (f *FS) ReadOnly() *FS { return &FS{tree: f.tree, readOnly: true} }

// Children returns the cgroups in p, sorted; ErrGone if p does not exist.
func (f *FS) Children(p Path) ([]Path, error) {
	if err := p.validate(); err != nil {
		return nil, &Error{Op: opList, Path: string(p), Err: err}
	}
	names, err := f.tree.ReadDir(p.name())
	if err != nil {
		return nil, &Error{Op: opList, Path: string(p), Err: goneOr(err)}
	}
	return p.children(names), nil
}

// children are the cgroups in p with the given names, sorted.
func (p Path) children(names []string) []Path {
	slices.Sort(names)
	children := make([]Path, len(names))
	for i, name := range names {
		children[i] = p.Join(name)
	}
	return children
}

// ReadFile returns the content of one file of a cgroup.
func (f *FS) ReadFile(p Path, file string) ([]byte, error) {
	name, err := p.file(file)
	if err != nil {
		return nil, &Error{Op: opRead, Path: name, Err: err}
	}
	data, err := f.tree.ReadFile(name, maxFile)
	if err != nil {
		return nil, &Error{Op: opRead, Path: name, Err: f.cause(p, err)}
	}
	return data, nil
}

// Write writes value to a file of a cgroup, in one write(2). The empty value is
// refused: the kernel takes a write of no bytes for success and does nothing.
func (f *FS) Write(p Path, file, value string) error {
	name, err := p.file(file)
	if err != nil {
		return &Error{Op: opWrite, Path: name, Value: value, Err: err}
	}
	if value == "" {
		return &Error{Op: opWrite, Path: name, Err: errors.New("empty value would be ignored by the kernel")}
	}
	if f.readOnly {
		return &Error{Op: opWrite, Path: name, Value: value, Err: ErrReadOnly}
	}
	if err := f.tree.WriteFile(name, value); err != nil {
		return &Error{Op: opWrite, Path: name, Value: value, Err: f.cause(p, err)}
	}
	return nil
}

// Apply carries out a write that goes Via File; others return an error. For the cgroup of an
// ended container it returns ErrGone.
func (f *FS) Apply(w Write) error {
	if w.Via != File {
		return fmt.Errorf("apply %s: not a write to a file", w)
	}
	return f.Write(w.Path, w.Property, w.Value)
}

// cause maps the errno of an operation on a file of p to the errors of this package. A
// missing file has two possible causes, and only the directory distinguishes them.
func (f *FS) cause(p Path, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return goneOr(err)
	}
	if _, e := f.tree.ReadFile(path.Join(p.name(), "cgroup.controllers"), maxFile); e != nil {
		return goneOr(e)
	}
	return ErrNoController
}

func goneOr(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
		return ErrGone
	}
	return err
}
