package appcpus

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"
)

// Files are to be there, by name below the directory.
type Files struct {
	// Content is what to write.
	Content map[string]string
	// Keep are names that stay as they are if they are there: files of containers
	// whose placement is not verified at the moment. Everything else goes.
	Keep map[string]bool
}

// Sync makes the files in dir as they should be, and touches none that is so. A
// file that cannot be written or removed does not keep the others from it; the
// error joins all of them.
func Sync(dir string, want Files) error {
	var errs []error
	for name, content := range want.Content {
		if err := put(dir, name, content); err != nil {
			errs = append(errs, err)
		}
	}
	for _, top := range []string{containersDir, unitsDir} {
		if err := clean(dir, top, want); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Update is Sync where the files in dir are as Sync or Update has left them before: it looks
// at those that differ alone.
func Update(dir string, before, want Files) error {
	var errs []error
	for name, content := range want.Content {
		if old, had := before.Content[name]; had && old == content {
			continue
		}
		if err := put(dir, name, content); err != nil {
			errs = append(errs, err)
		}
	}
	for _, had := range []iter.Seq[string]{maps.Keys(before.Content), maps.Keys(before.Keep)} {
		for name := range had {
			if want.has(name) {
				continue
			}
			switch err := drop(dir, name, want); {
			case err == nil && filepath.Dir(name) != unitsDir:
				_ = os.Remove(filepath.Join(dir, filepath.Dir(name))) // it stays if there is more in it
			case err != nil && !errors.Is(err, fs.ErrNotExist):
				errs = append(errs, fmt.Errorf("remove CPUs for the application: %w", err))
			}
		}
	}
	return errors.Join(errs...)
}

// put writes a file unless it holds the content already.
func put(dir, name, content string) error {
	file := filepath.Join(dir, name)
	if old, err := os.ReadFile(file); err == nil && string(old) == content {
		return nil
	}
	if err := makeDirs(dir, filepath.Dir(name)); err != nil {
		return fmt.Errorf("write CPUs for the application: %w", err)
	}
	if err := renameio.WriteFile(file, []byte(content), 0o644, renameio.IgnoreUmask()); err != nil {
		return fmt.Errorf("write CPUs for the application: %w", err)
	}
	return nil
}

// makeDirs makes a directory below dir, and dir. Applications of any user read what
// is in it, whatever the daemon's umask.
func makeDirs(dir, below string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for part := range strings.SplitSeq(below, "/") {
		dir = filepath.Join(dir, part)
		err := os.Mkdir(dir, 0o755)
		if err == nil {
			err = os.Chmod(dir, 0o755)
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// clean removes what is not wanted in a directory of dir, and directories that it
// has emptied: one that was empty before may be of a container that is being made,
// with the directory mounted. What has another name was not made here.
func clean(dir, top string, want Files) error {
	var errs []error
	note := func(err error) {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove CPUs for the application: %w", err))
		}
	}
	entries, err := os.ReadDir(filepath.Join(dir, top))
	note(err)
	for _, e := range entries {
		name := filepath.Join(top, e.Name())
		if !e.IsDir() {
			note(drop(dir, name, want))
			continue
		}
		files, err := os.ReadDir(filepath.Join(dir, name))
		note(err)
		left := len(files)
		for _, f := range files {
			file := filepath.Join(name, f.Name())
			if err := drop(dir, file, want); err != nil {
				note(err)
			} else if !want.has(file) {
				left--
			}
		}
		if left == 0 && len(files) > 0 {
			note(os.Remove(filepath.Join(dir, name)))
		}
	}
	return errors.Join(errs...)
}

func (f Files) has(name string) bool {
	_, written := f.Content[name]
	return written || f.Keep[name]
}

func drop(dir, name string, want Files) error {
	if want.has(name) || !ours(filepath.Base(name)) {
		return nil
	}
	return os.Remove(filepath.Join(dir, name))
}

// ours says that a file has a name as they are made here. A daemon that is killed
// between writing and renaming leaves .app.json4711 (renameio), which goes with the
// next Sync: there is only one at a time.
func ours(file string) bool {
	if file[0] == '.' {
		whole := strings.TrimRight(file, "0123456789")
		if whole == file {
			return false
		}
		file = whole
	}
	return strings.HasSuffix(file, jsonSuffix) || strings.HasSuffix(file, envSuffix)
}
