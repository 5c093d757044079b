package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/cpupoold/cpupoold/internal/plugin/manifest"
)

// inPlace mutates files where they are. It goes on after an error.
func (o *mutateOptions) inPlace(s streams) error {
	if err := o.checkBackupDir(); err != nil {
		return err
	}
	var coverage manifest.Coverage
	files, errs := listFiles(o.files, o.recursive, &coverage)
	for _, file := range files {
		if f, err := readRegular(file); err == nil { // changeFile returns the error
			o.cover(&coverage, file, f.data)
		}
	}
	for _, file := range files {
		errs = append(errs, o.changeFile(s, file))
	}
	return errors.Join(append(errs, reportCoverage(s, &coverage, errs, changeable))...)
}

func (o *mutateOptions) checkBackupDir() error {
	if o.backupDir != "" && !isDirectory(o.backupDir) {
		return fmt.Errorf("--backup-dir %s: no such directory; make it first", o.backupDir)
	}
	return nil
}

func (o *mutateOptions) changeFile(s streams, file string) error {
	was, err := readRegular(file)
	if err != nil {
		return err
	}
	result, err := manifest.Rewrite(was.data, o.mutate)
	o.note(s, file, result.Notes)
	if err != nil {
		return inFile(file, err, "; it stays as it is")
	}
	if bytes.Equal(result.After, was.data) {
		fmt.Fprintf(s.out, "%s: nothing to change\n", file)
		return nil
	}
	backup := copyPath(file, o.backupDir, backupSuffix)
	if o.diff {
		if _, err := checkCopy(backup, was); err != nil {
			return fmt.Errorf("%s would not be changed: %w", file, err)
		}
		_, err := s.out.Write(diff.Diff(file, was.data, file+" (mutated)", result.After))
		return err
	}
	if err := writeCopy(backup, was); err != nil {
		return fmt.Errorf("%s has no backup and stays as it is: %w", file, err)
	}
	if err := replace(file, result.After, was.info); err != nil {
		return fmt.Errorf("%s stays as it is: %w", file, err)
	}
	fmt.Fprintf(s.out, "%s: changed, backup %s\n", file, backup)
	return nil
}

// restore puts the backups of files back. It goes on after an error.
func (o *mutateOptions) restore(s streams) error {
	if err := o.checkBackupDir(); err != nil {
		return err
	}
	var errs []error
	for _, arg := range o.files {
		files := []string{arg}
		if isDirectory(arg) {
			var err error
			if files, err = o.backedUp(arg); err == nil && len(files) == 0 {
				err = fmt.Errorf("%s: no backup of anything in it; see --backup-dir", arg)
			}
			errs = append(errs, err)
		}
		for _, file := range files {
			errs = append(errs, o.restoreFile(s, file))
		}
	}
	return errors.Join(errs...)
}

// backedUp returns the files of a directory that have a backup, whether or not they
// are still there.
func (o *mutateOptions) backedUp(dir string) ([]string, error) {
	in := walkable(cmp.Or(o.backupDir, dir))
	var files []string
	err := filepath.WalkDir(in, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && path != in && !o.recursive:
			return fs.SkipDir
		}
		name, isBackup := strings.CutSuffix(e.Name(), backupSuffix)
		if name, hidden := strings.CutPrefix(name, "."); isBackup && hidden && e.Type().IsRegular() {
			at := dir
			if o.backupDir == "" {
				at = filepath.Dir(path)
			}
			files = append(files, filepath.Join(at, name))
		}
		return nil
	})
	slices.Sort(files)
	return files, err
}

func (o *mutateOptions) restoreFile(s streams, file string) error {
	path := copyPath(file, o.backupDir, backupSuffix)
	backup, err := readRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s has no backup %s; nothing is restored", file, path)
	}
	if err != nil {
		return err
	}
	is, err := readRegular(file)
	gone := errors.Is(err, fs.ErrNotExist)
	if err != nil && !gone {
		return err
	}
	edits := o.edits(file, backup.data, is.data)
	if gone {
		edits = nil
	}
	if o.diff {
		_, err := s.out.Write(diff.Diff(file, is.data, path, backup.data))
		return err
	}
	if len(edits) > 0 {
		kept := copyPath(file, o.backupDir, editedSuffix)
		if err := writeCopy(kept, is); err != nil {
			return fmt.Errorf("%s has been edited since and stays as it is: %w", file, err)
		}
		fmt.Fprintf(s.out, "%s: edited since it was changed, or changed with other flags; it is kept as %s. The difference:\n%s", file, kept, edits)
	}
	if err := replace(file, backup.data, backup.info); err != nil {
		return fmt.Errorf("%s stays as it is: %w", file, err)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("%s is restored, but its backup stays: %w", file, err)
	}
	fmt.Fprintf(s.out, "%s: restored\n", file)
	return nil
}

// edits returns the differences of the file from the result of mutate on its backup. It is nil without
// differences, and if the file equals the backup.
func (o *mutateOptions) edits(file string, backup, is []byte) []byte {
	if bytes.Equal(is, backup) {
		return nil
	}
	made := backup
	if result, err := manifest.Rewrite(backup, o.mutate); err == nil {
		made = result.After
	}
	return diff.Diff(file+" (as it was changed)", made, file, is)
}

// Suffixes of the copies in the directory of a manifest. The name of a copy begins with a dot, because the
// kubelet reads each other file of the directory as a static pod (kubelet config/file.go).
const (
	backupSuffix = ".cpupool-backup"
	editedSuffix = ".cpupool-edited"
)

// copyPath returns the path of a copy of file in dir. An empty dir is the directory of file.
func copyPath(file, dir, suffix string) string {
	dir = cmp.Or(dir, filepath.Dir(file))
	return filepath.Join(dir, "."+filepath.Base(file)+suffix)
}

type content struct {
	data []byte
	info fs.FileInfo
}

// readRegular reads a regular file. A symbolic link is an error, because a rename would replace the link.
func readRegular(file string) (content, error) {
	info, err := os.Lstat(file)
	switch {
	case err != nil:
		return content{}, err
	case info.Mode().Type() == fs.ModeSymlink:
		to, _ := os.Readlink(file)
		return content{}, fmt.Errorf("%s is a symbolic link to %s, which would be replaced by a file; name the file instead", file, to)
	case !info.Mode().IsRegular():
		return content{}, irregular(file, info.Mode().Type())
	}
	data, err := os.ReadFile(file)
	return content{data, info}, err
}

// checkCopy reports whether path exists with this content, for example after an interrupted run. Other
// content is an error.
func checkCopy(path string, c content) (bool, error) {
	there, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !bytes.Equal(there, c.data) {
		return false, fmt.Errorf("%s exists and is of another version of the file; put it back with --restore, or move it away", path)
	}
	return true, nil
}
