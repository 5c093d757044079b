package observer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// view is one reading of the cgroups of a container.
type view struct {
	scope     string // name of the container's scope
	effective cpus   // of all of its cgroups with threads
	threads   cpus   // union of the affinities of all threads
	count     int    // number of threads
}

// directory is one cgroup with its open files.
type directory struct {
	path               string
	scope              string // scope that contains it; empty for a slice
	watch              int    // of inotify
	effective, threads int    // descriptors; -1 for a slice
}

// tree reads the cgroups of all pods. It keeps their files open, and lists directories only
// after inotify has reported a new or a removed one.
type tree struct {
	root        string
	parent      int // descriptor of cpuset.cpus.effective of root
	notify      int
	directories map[string]*directory // by path
	scopes      [][]*directory        // of one container each
	stale       bool
	buffer      []byte
}

// openTree returns a tree of the cgroups below root.
func openTree(root string) (*tree, error) {
	notify, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("open inotify: %w", err)
	}
	parent, err := unix.Open(filepath.Join(root, "cpuset.cpus.effective"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		_ = unix.Close(notify) // nothing was written to it
		return nil, fmt.Errorf("open cpuset.cpus.effective of %s: %w", root, err)
	}
	return &tree{root: root, parent: parent, notify: notify, directories: make(map[string]*directory), stale: true, buffer: make([]byte, 64<<10)}, nil
}

// close closes all files.
func (t *tree) close() {
	for _, d := range t.directories {
		d.close()
	}
	_, _ = unix.Close(t.notify), unix.Close(t.parent) // nothing was written to them
}

// all returns the CPUs of a container that is not placed.
func (t *tree) all() (cpus, error) { return t.cpus(t.parent, t.root) }

// cpus reads a file with CPUs of a cgroup.
func (t *tree) cpus(fd int, cgroup string) (cpus, error) {
	n, err := unix.Pread(fd, t.buffer, 0)
	if err != nil {
		return 0, fmt.Errorf("read cpuset.cpus.effective of %s: %w", cgroup, err)
	}
	return parseCPUs(t.buffer[:n])
}

func (d *directory) close() {
	for _, fd := range []int{d.effective, d.threads} {
		if fd >= 0 {
			_ = unix.Close(fd) // opened for reading
		}
	}
}

// refresh lists the directories if one was added or removed.
func (t *tree) refresh() error {
	for {
		n, err := unix.Read(t.notify, t.buffer)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			break
		}
		if err != nil {
			return fmt.Errorf("read inotify: %w", err)
		}
		t.stale = t.stale || n > 0
	}
	if !t.stale {
		return nil
	}
	t.stale = false
	found := make(map[string]bool)
	if err := t.list(t.root, "", found); err != nil {
		return err
	}
	t.scopes = nil
	byScope := make(map[string][]*directory)
	for path, d := range t.directories {
		switch {
		case !found[path]:
			d.close()
			delete(t.directories, path)
		case d.scope != "":
			byScope[d.scope] = append(byScope[d.scope], d)
		}
	}
	for _, all := range byScope {
		t.scopes = append(t.scopes, all)
	}
	return nil
}

// list opens a directory and those below it. A directory that disappears is no error.
func (t *tree) list(path, scope string, found map[string]bool) error {
	if scope == "" && strings.HasSuffix(path, ".scope") {
		scope = filepath.Base(path)
	}
	watch, err := unix.InotifyAddWatch(t.notify, path, unix.IN_CREATE|unix.IN_DELETE|unix.IN_ONLYDIR)
	if err != nil {
		return t.later(fmt.Errorf("watch %s: %w", path, err))
	}
	if d := t.directories[path]; d != nil && d.watch != watch { // another one of the same name
		d.close()
		delete(t.directories, path)
	}
	if t.directories[path] == nil {
		d := &directory{path: path, scope: scope, watch: watch, effective: -1, threads: -1}
		if err := d.open(); err != nil {
			d.close()
			return t.later(err) // the files come with the controller, after the directory
		}
		t.directories[path] = d
	}
	found[path] = true
	entries, err := readDirectories(path)
	if err != nil {
		return t.later(err)
	}
	for _, name := range entries {
		if err := t.list(filepath.Join(path, name), scope, found); err != nil {
			return err
		}
	}
	return nil
}

// later returns nil for a missing file, which the next refresh tries again, and otherwise
// err.
func (t *tree) later(err error) error {
	if unlessGone(err) == nil {
		t.stale = true
		return nil
	}
	return err
}

// open opens the files of a container's cgroup.
func (d *directory) open() (err error) {
	if d.scope == "" {
		return nil
	}
	if d.effective, err = unix.Open(d.path+"/cpuset.cpus.effective", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return fmt.Errorf("open cpuset.cpus.effective of %s: %w", d.path, err)
	}
	if d.threads, err = unix.Open(d.path+"/cgroup.threads", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return fmt.Errorf("open cgroup.threads of %s: %w", d.path, err)
	}
	return nil
}

// read returns the containers with threads. Those for which first returns true come before all
// others.
func (t *tree) read(first func(scope string) bool) ([]view, error) {
	if err := t.refresh(); err != nil {
		return nil, err
	}
	slices.SortStableFunc(t.scopes, func(a, b []*directory) int {
		rank := map[bool]int{true: 0, false: 1}
		return rank[first(a[0].scope)] - rank[first(b[0].scope)]
	})
	var all []view
	for _, directories := range t.scopes {
		v, err := t.view(directories)
		if err != nil {
			return nil, err
		}
		if v.count > 0 {
			all = append(all, v)
		}
	}
	return all, nil
}

// again returns a second reading of a container. Without threads its count is 0.
func (t *tree) again(scope string) (view, error) {
	for _, directories := range t.scopes {
		if directories[0].scope == scope {
			return t.view(directories)
		}
	}
	return view{scope: scope}, nil
}

// programs returns the names of the threads of a container that may run on one of the CPUs.
func (t *tree) programs(scope string, on cpus) (names []string) {
	for _, directories := range t.scopes {
		if directories[0].scope != scope {
			continue
		}
		for _, d := range directories {
			n, err := unix.Pread(d.threads, t.buffer, 0)
			if err != nil {
				continue // it was removed
			}
			for tid := range strings.FieldsSeq(string(t.buffer[:n])) {
				name, err := os.ReadFile("/proc/" + tid + "/comm")
				if err != nil {
					continue // it has ended
				}
				var set unix.CPUSet
				if id, _ := strconv.Atoi(tid); unix.SchedGetaffinity(id, &set) == nil && cpus(set[0])&on != 0 {
					names = append(names, strings.TrimSpace(string(name)))
				}
			}
		}
	}
	return names
}

// view reads the cgroups of one container.
func (t *tree) view(directories []*directory) (view, error) {
	v := view{scope: directories[0].scope}
	for _, d := range directories {
		if err := unlessGone(t.add(&v, d)); err != nil {
			return v, err
		}
	}
	return v, nil
}

// add adds one cgroup to a view.
func (t *tree) add(v *view, d *directory) error {
	n, err := unix.Pread(d.threads, t.buffer, 0)
	if err != nil {
		return fmt.Errorf("read cgroup.threads of %s: %w", d.path, err)
	}
	if n == 0 {
		return nil
	}
	for field := range strings.FieldsSeq(string(t.buffer[:n])) {
		tid, err := strconv.Atoi(field)
		if err != nil {
			return fmt.Errorf("parse cgroup.threads of %s: %w", d.path, err)
		}
		var set unix.CPUSet
		switch err := unix.SchedGetaffinity(tid, &set); {
		case errors.Is(err, unix.ESRCH): // it has ended
		case err != nil:
			return fmt.Errorf("get affinity of thread %d: %w", tid, err)
		default:
			v.threads |= cpus(set[0])
			v.count++
		}
	}
	effective, err := t.cpus(d.effective, d.path)
	v.effective |= effective
	return err
}

// unlessGone returns err, or nil if the cgroup no longer exists.
func unlessGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

// readDirectories returns the names of the directories in a directory.
func readDirectories(path string) (names []string, err error) {
	entries, err := os.ReadDir(path)
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, err
}
