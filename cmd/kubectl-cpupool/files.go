package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/plugin/manifest"
)

// listFiles returns the files that arguments of -f stand for: themselves, and of
// directories the manifests in them, in the order of their names; with recursive,
// also in their subdirectories. Names that start with a dot are ignored, as in the kubelet.
// The other files in directories, and without recursive the directories in them, are skipped
// in the coverage, and so is a directory without files. Errors are one for each directory
// that cannot be read and each manifest that is no file, and the rest is there.
func listFiles(arguments []string, recursive bool, coverage *manifest.Coverage) (files []string, errs []error) {
	files, others, errs := listAll(arguments, recursive, coverage)
	for _, path := range others {
		if strings.HasSuffix(path, "/") {
			coverage.Skip("directory that only -R reads", path)
			continue
		}
		coverage.Skip("file that does not end in .yaml, .yml or .json", path)
	}
	return files, errs
}

// listAll is listFiles, and returns the skipped paths. A directory has a slash at the end. Only
// directories without files are in the coverage.
func listAll(arguments []string, recursive bool, coverage *manifest.Coverage) (files, skipped []string, errs []error) {
	for _, arg := range arguments {
		if arg == "-" || !isDirectory(arg) {
			files = append(files, arg) // the reader returns the error
			continue
		}
		root, before := walkable(arg), len(files)+len(skipped)+len(errs)
		err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			switch {
			case err != nil:
				errs = append(errs, fmt.Errorf("directory cannot be read: %w", err))
				if e == nil || e.IsDir() {
					return fs.SkipDir
				}
			case path == root:
			case strings.HasPrefix(e.Name(), "."), e.IsDir() && !recursive:
				if e.IsDir() {
					if !strings.HasPrefix(e.Name(), ".") {
						skipped = append(skipped, path+"/")
					}
					return fs.SkipDir
				}
			case e.IsDir():
			case isManifest(path) && e.Type()&^fs.ModeSymlink != 0:
				errs = append(errs, irregular(path, e.Type()))
			case isManifest(path):
				files = append(files, path)
			case recursive && isDirectory(path):
				errs = append(errs, fmt.Errorf("%s is a symbolic link to a directory, which is not followed; name it with -f, too", path))
			default:
				skipped = append(skipped, path)
			}
			return nil
		})
		if err != nil {
			errs = append(errs, err)
		}
		if len(files)+len(skipped)+len(errs) == before {
			coverage.Skip("directory without files", arg)
		}
	}
	return files, skipped, errs
}

// checkStdin returns an error if two of the files are the standard input.
func checkStdin(files ...string) error {
	if i := slices.Index(files, "-"); i >= 0 && slices.Contains(files[i+1:], "-") {
		return errors.New("the standard input can be read once; name files for the others")
	}
	return nil
}

// isDirectory reports whether path is a directory, or a link to one.
func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// walkable returns a directory in the form that filepath.WalkDir needs. Of a symbolic link to
// a directory, it would list only the link, without an error.
func walkable(dir string) string {
	return strings.TrimSuffix(dir, "/") + "/"
}

// isManifest reports whether a file has an extension that kubectl reads in directories.
func isManifest(path string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path))
}

func irregular(path string, mode fs.FileMode) error {
	return fmt.Errorf("%s is no regular file but %s; move it away", path, mode)
}

// reportCoverage prints the kinds of the objects that a command has read and skipped. If it has
// read no object, and errs have no other reason, it returns an error. Wanted names the objects.
func reportCoverage(s streams, c *manifest.Coverage, errs []error, wanted string) error {
	if errors.Join(errs...) == nil {
		if err := c.Err(wanted); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(s.err, layout.Printable(c.String()))
	return err
}
