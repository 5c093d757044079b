package cgroup

import (
	"errors"
	"io/fs"
)

// Directories is a [Tree] whose directories can be held open over several reads: their
// path is looked up once, and what is read is of one cgroup, also when another of its name
// comes meanwhile.
type Directories interface {
	OpenDir(name string) (Dir, error)
}

// Dir is an open directory.
type Dir interface {
	// ReadFile is that of Tree, of a file in the directory.
	ReadFile(file string, limit int) ([]byte, error)
	Close() error
}

// opened is a cgroup that is read.
type opened struct {
	fs   *FS
	path Path
	dir  Dir // nil where the tree has none
}

// open opens a cgroup to read it. Where a tree has no directories, one that is not there
// is noticed by the first read.
func (f *FS) open(p Path) (*opened, error) {
	o := &opened{fs: f, path: p}
	all, ok := f.tree.(Directories)
	if !ok {
		return o, nil
	}
	err := p.validate()
	if err == nil {
		o.dir, err = all.OpenDir(p.name())
	}
	if err != nil {
		return nil, &Error{Op: opRead, Path: string(p), Err: goneOr(err)}
	}
	return o, nil
}

func (o *opened) close() {
	if o.dir != nil {
		_ = o.dir.Close() // it was opened to read
	}
}

// ReadFile returns the content of one file.
func (o *opened) ReadFile(file string) ([]byte, error) {
	if o.dir == nil {
		return o.fs.ReadFile(o.path, file)
	}
	data, err := o.dir.ReadFile(file, maxFile)
	if err == nil {
		return data, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		err = goneOr(err)
	} else if _, gone := o.dir.ReadFile("cgroup.controllers", maxFile); gone != nil {
		err = goneOr(gone)
	} else {
		err = ErrNoController
	}
	return nil, &Error{Op: opRead, Path: o.path.name() + "/" + file, Err: err}
}

// readValue reads one file and names it in the error when it makes no sense.
func readValue[T any](o *opened, file string, parse func([]byte) (T, error)) (T, error) {
	data, err := o.ReadFile(file)
	if err != nil {
		var zero T
		return zero, err
	}
	value, err := parse(data)
	if err != nil {
		var zero T
		return zero, &Error{Op: opRead, Path: string(o.path.Join(file)), Err: err}
	}
	return value, nil
}

// readOne is readValue for a cgroup of which nothing else is read.
func readOne[T any](f *FS, p Path, file string, parse func([]byte) (T, error)) (T, error) {
	return readValue(&opened{fs: f, path: p}, file, parse)
}
