package vm

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/test/vm/internal/image"
)

// runDir is the directory of one running machine. It is locked as long as this process runs, however it ends, so that other processes
// can remove unlocked ones.
type runDir struct {
	path string
	lock *os.File
	kept string // sibling directory for files that outlive the machine
}

// newRunDir makes one, and removes those that killed processes have left behind.
func newRunDir(store image.Store) (runDir, error) {
	parent := filepath.Join(store.Cache, "run")
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return runDir{}, err
	}
	if err := sweep(parent); err != nil {
		return runDir{}, err
	}
	path, err := os.MkdirTemp(parent, "vm-")
	if err != nil {
		return runDir{}, err
	}
	lock, err := lockDir(path)
	if err != nil {
		return runDir{}, errors.Join(err, os.RemoveAll(path))
	}
	return runDir{path: path, lock: lock, kept: filepath.Join(store.Cache, "failed", filepath.Base(path))}, nil
}

// file returns the path of a file in the directory.
func (d runDir) file(name string) string { return filepath.Join(d.path, name) }

// keep saves the files that match one of the patterns to d.kept, under the same names.
func (d runDir) keep(patterns ...string) error {
	err := os.MkdirAll(d.kept, 0o755)
	for _, pattern := range patterns {
		files, gerr := filepath.Glob(d.file(pattern))
		err = errors.Join(err, gerr)
		for _, file := range files {
			err = errors.Join(err, os.Link(file, filepath.Join(d.kept, filepath.Base(file))))
		}
	}
	return err
}

func (d runDir) remove() error {
	return errors.Join(os.RemoveAll(d.path), d.lock.Close())
}

// sweep removes run directories without a lock. Young ones may be about to be locked.
func sweep(parent string) error {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || time.Since(info.ModTime()) < time.Minute {
			continue // gone already, or young
		}
		path := filepath.Join(parent, e.Name())
		lock, err := lockDir(path)
		if err != nil {
			continue // in use
		}
		if err := errors.Join(os.RemoveAll(path), lock.Close()); err != nil {
			return err
		}
	}
	return nil
}

func lockDir(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
