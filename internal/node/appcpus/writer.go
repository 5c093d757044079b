package appcpus

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/internal/node/confined"
)

// A pod's author can mount the pod's directory, or all of them, writable. So each Write makes
// a bounded number of steps: another Write continues.
const (
	maxNames     = 1000   // names read in one directory
	maxPods      = 4096   // names read in the directory of all pods
	dirSteps     = 5_000  // entries removed in one directory
	maxSteps     = 20_000 // entries removed in one Write
	fileMode     = fs.FileMode(0o644)
	dirMode      = fs.FileMode(0o755)
	foreignFault = "another program has changed it, and cpupoold has replaced it; mount its directory with readOnly: true"
)

// Writer writes and removes files in a directory, so that it contains the files of the entries. It
// keeps files with names that this package does not use, in the directories of units and of
// existing pods. One goroutine at a time may use it.
type Writer struct {
	dir       string
	rendering map[string]*rendering // by name of the JSON file
	files     map[string]*file      // of the entries, by name
	checked   bool                  // a Write has compared all files.
	checks    int                   // of all files
	seen      map[string]stamps     // by directory, of directories whose files a check has read and kept

	// Of the current Write.
	steps    int
	whole    bool
	again    bool
	err      error // of the file system
	leftover []error
	fresh    map[string]stamps
}

// file is a file of an entry, existing or not.
type file struct {
	content string // as written; empty before
	failed  bool   // content was not written
	fault   string
}

// rendering holds the files of an entry, so that only changed entries are rendered.
type rendering struct {
	entry Entry
	files map[string]string // content by name
}

// NewWriter returns a Writer of the files below dir. It does not write yet.
func NewWriter(dir string) *Writer {
	return &Writer{dir: dir, seen: make(map[string]stamps)}
}

// Result is the result of a Write.
type Result struct {
	// Faults holds the entries with a file that another program has changed, or that cannot be
	// written.
	Faults []Fault
	// Err is an error that keeps all files of containers from being written.
	Err error
	// Leftover is an error about a file or directory that should be removed. It may be of a pod
	// that is gone.
	Leftover error
	// Again reports whether a later Write of all files can repair more.
	Again bool
}

// Fault describes what is wrong with a file of an entry.
type Fault struct {
	Entry Entry
	Text  string
}

// Write makes the files follow the entries. A verified entry determines the content of its
// files. The files of another entry keep their content. All other files are removed. Write
// touches no file that has its content already. It compares only files of changed entries with
// the disk, unless whole is set. Then it reads the files of directories that have changed since the
// last such Write, and one in readTurns of the others. After an error it continues with the other
// files.
func (w *Writer) Write(entries []Entry, whole bool) Result {
	w.steps, w.whole, w.again, w.err, w.leftover = maxSteps, whole || !w.checked, false, nil, nil
	var invalid []Fault
	before := w.files
	want, names := w.render(entries, func(e Entry, err error) { invalid = append(invalid, Fault{e, err.Error()}) })
	w.checked, w.fresh = true, make(map[string]stamps)
	if w.whole {
		w.checks++
	}
	r := Result{Faults: invalid, Err: cmp.Or(w.sync(want, before), w.err), Leftover: errors.Join(w.leftover...)}
	r.Again = w.again || r.Err != nil || r.Leftover != nil
	maps.DeleteFunc(w.seen, func(dir string, _ stamps) bool { return want[dir] == nil && dir != unitsDir && dir != containersDir })
	for i := range entries {
		for _, name := range names[i] {
			if text := w.files[name].fault; text != "" {
				r.Faults = append(r.Faults, Fault{entries[i], path.Join(w.dir, name) + ": " + text})
				r.Again = true
			}
		}
	}
	return r
}

// render returns the content of all files that have one, by directory and name, and the sorted
// names of each entry's files.
func (w *Writer) render(entries []Entry, invalid func(Entry, error)) (want map[string]map[string]string, names [][]string) {
	want, names = make(map[string]map[string]string), make([][]string, len(entries))
	renderings, files := make(map[string]*rendering, len(entries)), make(map[string]*file, len(entries))
	for i, e := range entries {
		name, err := e.Name()
		r := w.rendering[name]
		if err == nil && (r == nil || !r.entry.hasFilesOf(&e)) {
			r = &rendering{entry: e, files: make(map[string]string, 1)}
			err = e.Render(r.files)
		}
		if err != nil {
			invalid(e, err)
			continue
		}
		renderings[name] = r
		names[i] = slices.Sorted(maps.Keys(r.files))
		for name, content := range r.files {
			f := w.files[name]
			if f == nil {
				f = &file{}
			}
			files[name] = f
			dir := path.Dir(name)
			if want[dir] == nil {
				want[dir] = make(map[string]string)
			}
			if e.Verified {
				want[dir][name] = content
			} else if f.content != "" {
				want[dir][name] = f.content
			}
		}
	}
	w.rendering, w.files = renderings, files
	return want, names
}

// sync writes the files in want, and then removes files that no entry has: many of them must not
// delay a file. It starts with the files of removed pods, because an existing pod can make more files
// at any time.
func (w *Writer) sync(want map[string]map[string]string, before map[string]*file) error {
	top, err := confined.Open(w.dir, dirMode)
	if err != nil {
		return fmt.Errorf("write CPUs for applications: %w", err)
	}
	defer top.Close() //nolint:errcheck // a directory
	obsolete := make(map[string][]string)
	for name := range before {
		if dir := path.Dir(name); w.files[name] == nil {
			obsolete[dir] = append(obsolete[dir], path.Base(name))
		}
	}
	pods, err := top.Sub(containersDir, dirMode)
	if err != nil {
		return fmt.Errorf("write CPUs for applications: %w", err)
	}
	defer pods.Close() //nolint:errcheck // a directory
	if w.whole && len(obsolete) == 0 && w.isKept(top, pods, want) {
		return nil
	}
	if w.writeDir(top, unitsDir, want[unitsDir], obsolete[unitsDir]) {
		w.clean(top, unitsDir, obsolete[unitsDir])
	}
	var unclean []string
	for dir, files := range want {
		if dir != unitsDir && w.writeDir(pods, dir, files, obsolete[dir]) {
			unclean = append(unclean, dir)
		}
	}
	for dir := range obsolete {
		if dir != unitsDir && want[dir] == nil {
			w.clear(pods, path.Base(dir), dirSteps)
		}
	}
	if w.whole {
		now := w.stamp(pods, nil)
		if delete(w.seen, containersDir); w.clearPods(pods, want) && now != nil {
			w.seen[containersDir] = now
		}
	}
	for _, dir := range unclean {
		w.clean(pods, dir, obsolete[dir])
	}
	return nil
}

// writeDir writes the files of a directory below parent. It reports whether the directory may
// contain other files.
func (w *Writer) writeDir(parent *confined.Dir, dir string, files map[string]string, obsolete []string) bool {
	changed := make([]string, 0, len(files))
	for name, content := range files {
		if f := w.files[name]; w.whole || f.content != content || f.failed {
			changed = append(changed, name)
		}
	}
	if len(changed)+len(obsolete) == 0 && (!w.whole || len(files) == 0 && dir != unitsDir) {
		return false
	}
	now := w.stampIn(parent, dir, files)
	if len(obsolete) == 0 && w.keeps(dir, now) {
		return false
	}
	delete(w.seen, dir)
	d, foreign, err := sub(parent, path.Base(dir))
	if err != nil {
		if len(changed) == 0 {
			w.note(err)
		}
		for _, name := range changed {
			w.fail(name, files[name], err)
		}
		return false
	}
	defer d.Close() //nolint:errcheck // a directory
	unclean := w.whole || foreign || len(obsolete) > 0
	kept := w.whole && !foreign && now != nil
	for _, name := range changed {
		f := w.files[name]
		was := f.content
		unclean = w.writeFile(d, name, files[name], foreign) || unclean
		kept = kept && was == files[name] && !f.failed && f.fault == ""
	}
	if kept {
		w.fresh[dir] = now
	}
	return unclean
}

// clean removes the files of this package in a directory that no entry has.
func (w *Writer) clean(parent *confined.Dir, dir string, obsolete []string) {
	d, err := parent.Sub(path.Base(dir), dirMode)
	if err != nil {
		w.note(err)
		return
	}
	defer d.Close() //nolint:errcheck // a directory
	bases, err := d.Names(".", maxNames)
	w.note(err)
	steps, notes := dirSteps, len(w.leftover)
	for _, base := range append(bases, obsolete...) {
		if isGenerated(base) && w.files[path.Join(dir, base)] == nil {
			steps -= w.clear(d, base, steps)
		}
	}
	if now := w.fresh[dir]; now != nil && err == nil && steps == dirSteps && len(w.leftover) == notes {
		w.seen[dir] = now
	}
}

// sub opens a directory in parent. It replaces a file of another kind, and reports whether it
// has done that.
func sub(parent *confined.Dir, base string) (d *confined.Dir, foreign bool, err error) {
	d, err = parent.Sub(base, dirMode)
	if !errors.Is(err, confined.ErrForeign) {
		return d, false, err
	}
	if err := parent.Remove(base); err != nil {
		return nil, true, err
	}
	d, err = parent.Sub(base, dirMode)
	return d, true, err
}

// writeFile writes a file unless it has the content already. It reports whether another
// program has changed the file, or everything in its directory.
func (w *Writer) writeFile(d *confined.Dir, name, content string, foreign bool) bool {
	base, f := path.Base(name), w.files[name]
	is, err := d.Read(base, int64(max(len(f.content), len(content))))
	has := f.content != "" && !f.failed
	if errors.Is(err, confined.ErrForeign) || has && (err != nil || string(is) != f.content) {
		foreign = true
	}
	if err != nil || string(is) != content {
		if err := d.Write(base, []byte(content), fileMode); err != nil {
			w.fail(name, content, err)
			return foreign
		}
	}
	*f = file{content: content}
	if foreign {
		f.fault = foreignFault
	}
	return foreign
}

// fail notes a file whose content cannot be written. A later Write tries again.
func (w *Writer) fail(name, content string, err error) {
	f := w.files[name]
	f.content, f.failed = content, true
	if isGeneral(err) {
		w.err = fmt.Errorf("write CPUs for applications: %w", err)
		return
	}
	f.fault = "cannot be written: " + err.Error()
}

// isGeneral reports whether an error is of the file system, and not of a pod's file.
func isGeneral(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EROFS) || errors.Is(err, unix.EIO)
}

// clear removes a file or directory with at most limit steps, and returns the number of steps.
// Another Write removes the entries that are left.
func (w *Writer) clear(d *confined.Dir, base string, limit int) int {
	before := min(w.steps, limit)
	steps := before
	err := d.Clear(base, &steps)
	w.steps -= before - steps
	if errors.Is(err, confined.ErrUnfinished) {
		w.again = true
	} else {
		w.note(err)
	}
	return before - steps
}

// clearPods removes directories of pods that are gone, and entries that Clear has left. It keeps a
// directory without files of this package: it may be mounted in a container that is being
// created. It reports whether there are only directories of existing pods.
func (w *Writer) clearPods(pods *confined.Dir, want map[string]map[string]string) (clean bool) {
	bases, err := pods.Names(".", maxPods)
	w.note(err)
	clean = err == nil && len(bases) < maxPods
	var aside []string
	for _, base := range bases {
		switch {
		case want[path.Join(containersDir, base)] != nil:
			continue
		case confined.IsAside(base):
			aside = append(aside, base)
			continue
		case w.steps <= 0:
			w.again = true
			return false
		}
		clean = false
		files, err := pods.Names(base, maxNames)
		w.steps -= len(files)
		switch {
		case errors.Is(err, confined.ErrForeign):
			w.clear(pods, base, dirSteps)
		case err != nil:
			w.note(err)
		case slices.ContainsFunc(files, isGenerated):
			w.clear(pods, base, dirSteps)
		}
	}
	for _, base := range aside {
		w.clear(pods, base, dirSteps)
	}
	return clean && len(aside) == 0
}

func (w *Writer) note(err error) {
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.leftover = append(w.leftover, fmt.Errorf("remove CPUs for applications: %w", err))
	}
}

// isGenerated reports whether this package uses the file name. A daemon that is killed between
// write and rename leaves a file such as .app.json4711. The next Writer removes it, because
// only one daemon runs at a time.
func isGenerated(file string) bool {
	if file[0] == '.' {
		if !confined.IsAside(file) {
			return false
		}
		file = strings.TrimRight(file, "0123456789")
	}
	return strings.HasSuffix(file, jsonSuffix) || strings.HasSuffix(file, envSuffix)
}
