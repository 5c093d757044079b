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

// Files describes the desired files, by name below the directory.
type Files struct {
	Content map[string]string
	// Keep holds names of files that stay unchanged if they exist: the files of containers with
	// an unverified placement. All files in neither map are removed.
	Keep map[string]bool
}

// Sync writes and removes files in dir, so that it contains the desired ones. It does not touch
// files with the desired content. After an error it continues; it returns all errors joined.
func Sync(dir string, want Files) error {
	var errs []error
	for name, content := range want.Content {
		if err := writeFile(dir, name, content); err != nil {
			errs = append(errs, err)
		}
	}
	for _, top := range []string{containersDir, unitsDir} {
		if err := removeAllUnwanted(dir, top, want); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Update is a faster Sync for a dir that Sync or Update left with the files before. It reads only
// files that differ.
func Update(dir string, before, want Files) error {
	var errs []error
	for name, content := range want.Content {
		if old, had := before.Content[name]; had && old == content {
			continue
		}
		if err := writeFile(dir, name, content); err != nil {
			errs = append(errs, err)
		}
	}
	for _, had := range []iter.Seq[string]{maps.Keys(before.Content), maps.Keys(before.Keep)} {
		for name := range had {
			if want.has(name) {
				continue
			}
			switch err := removeUnwanted(dir, name, want); {
			case err == nil && filepath.Dir(name) != unitsDir:
				_ = os.Remove(filepath.Join(dir, filepath.Dir(name))) // fails if the directory contains other files
			case err != nil && !errors.Is(err, fs.ErrNotExist):
				errs = append(errs, fmt.Errorf("remove CPUs for the application: %w", err))
			}
		}
	}
	return errors.Join(errs...)
}

// writeFile writes a file unless it has the content already.
func writeFile(dir, name, content string) error {
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

// makeDirs creates dir and a directory below it. All users can read the directories, regardless
// of the daemon's umask, because applications of any user read the files.
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

// removeAllUnwanted removes unwanted files below a directory of dir, and then its empty
// directories. It keeps a directory that was empty before: it may be mounted in a container that
// is being created. It keeps files with names that this package does not use.
func removeAllUnwanted(dir, top string, want Files) error {
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
			note(removeUnwanted(dir, name, want))
			continue
		}
		files, err := os.ReadDir(filepath.Join(dir, name))
		note(err)
		left := len(files)
		for _, f := range files {
			file := filepath.Join(name, f.Name())
			if err := removeUnwanted(dir, file, want); err != nil {
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

func removeUnwanted(dir, name string, want Files) error {
	if want.has(name) || !isGenerated(filepath.Base(name)) {
		return nil
	}
	return os.Remove(filepath.Join(dir, name))
}

// isGenerated reports whether this package uses the file name. A daemon that is killed between
// write and rename leaves a file such as .app.json4711 (renameio). The next Sync removes it,
// because only one daemon runs at a time.
func isGenerated(file string) bool {
	if file[0] == '.' {
		whole := strings.TrimRight(file, "0123456789")
		if whole == file {
			return false
		}
		file = whole
	}
	return strings.HasSuffix(file, jsonSuffix) || strings.HasSuffix(file, envSuffix)
}
