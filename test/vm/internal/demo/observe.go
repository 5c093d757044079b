package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/internal/testing/testnode/walk"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/test/vm"
)

// collect prints the files of the cgroups of all pods and of the unit, the CPUs of each thread, and the topology of the machine. A line has the
// name of a file, a zero byte and a line of the file. Files of cgroups that end in the meantime are missing.
const collect = `cd /sys/fs/cgroup
grep -rsZ "" kubepods.slice system.slice/cpuset.cpus.effective system.slice/` + unit + ` --include=cgroup.controllers --include=cgroup.events --include=cgroup.procs \
	--include=cpuset.cpus --include=cpuset.cpus.effective --include=cpu.weight --include=cpu.idle --include=cpu.max
cd /
grep -sZ ^Cpus_allowed_list: proc/[0-9]*/task/[0-9]*/status
grep -sZ "" sys/devices/system/cpu/cpu[0-9]*/topology/thread_siblings_list sys/devices/system/node/node[0-9]*/cpulist
true`

// view holds the kernel's values of a container or unit.
type view struct {
	cgroup.State

	allowed []string   // the different Cpus_allowed_list of its threads
	cores   int        // physical cores that it has all threads of
	nodes   cpuset.Set // NUMA nodes that it has CPUs of
}

// observe returns the kernel's values of each container by its ID, pause containers included, and of the unit by its
// name.
func observe(ctx context.Context, m *vm.VM) (map[string]view, error) {
	out, err := m.Run(ctx, "sh", "-c", collect)
	if err != nil {
		return nil, err
	}
	views, err := parseViews(out)
	if err != nil {
		return nil, fmt.Errorf("read the node's cgroups: %w", err)
	}
	return views, nil
}

func parseViews(collected []byte) (map[string]view, error) {
	files, err := parseFiles(collected)
	if err != nil {
		return nil, err
	}
	shape, err := parseShape(files)
	if err != nil {
		return nil, err
	}
	allowed := allowedLists(files)
	tree := cgroup.New(files)
	views := make(map[string]view)
	for _, slice := range []cgroup.Path{"kubepods.slice", "system.slice"} {
		err := walk.Cgroups(tree, slice, func(p cgroup.Path) error {
			name, ok := observed(p)
			if !ok {
				return nil
			}
			state, err := tree.Read(p)
			if err != nil {
				return err
			}
			v := view{State: state, cores: shape.wholeCores(state.Effective), nodes: shape.nodesOf(state.Effective)}
			for _, pid := range files.processes(p) {
				v.allowed = append(v.allowed, allowed[pid]...)
			}
			slices.Sort(v.allowed)
			v.allowed = slices.Compact(v.allowed)
			views[name] = v
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return views, nil
}

// processes returns the processes of a cgroup and of its descendants: crun puts the processes of a container into the child "container".
func (f files) processes(p cgroup.Path) []string {
	var pids []string
	for name, content := range f {
		if below, inside := strings.CutPrefix(name, string(p)+"/"); inside && path.Base(below) == "cgroup.procs" {
			pids = append(pids, strings.Fields(string(content))...)
		}
	}
	return pids
}

// observed returns the name by which a cgroup's container or unit is known, if it is one's.
func observed(p cgroup.Path) (name string, ok bool) {
	name = path.Base(string(p))
	if scope, ok := strings.CutSuffix(name, ".scope"); ok {
		return scope[strings.LastIndex(scope, "-")+1:], true
	}
	return name, name == unit
}

// allowedLists returns the lists of each process's threads by its ID.
func allowedLists(f files) map[string][]string {
	lists := make(map[string][]string)
	for name, content := range f {
		parts := strings.Split(name, "/")
		if list, ok := strings.CutPrefix(string(content), "Cpus_allowed_list:"); ok && parts[0] == "proc" {
			lists[parts[1]] = append(lists[parts[1]], strings.TrimSpace(list))
		}
	}
	return lists
}

// files are copies of files by name. As a cgroup.Tree they are read by the daemon's own parsers.
type files map[string][]byte

func parseFiles(collected []byte) (files, error) {
	f := make(files)
	for line := range bytes.Lines(collected) {
		name, content, ok := bytes.Cut(line, []byte{0})
		if !ok {
			return nil, fmt.Errorf("line %q has no file name", line)
		}
		f[string(name)] = append(f[string(name)], content...)
	}
	return f, nil
}

// ReadFile returns a file that has been copied.
func (f files) ReadFile(name string, limit int) ([]byte, error) {
	content, ok := f[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	if len(content) > limit {
		return nil, fmt.Errorf("%s has more than %d bytes", name, limit)
	}
	return content, nil
}

// WriteFile refuses: these are copies.
func (f files) WriteFile(name, _ string) error {
	return &fs.PathError{Op: "write", Path: name, Err: errors.ErrUnsupported}
}

// Mkdir refuses, too.
func (f files) Mkdir(name string) error {
	return &fs.PathError{Op: "mkdir", Path: name, Err: errors.ErrUnsupported}
}

// Rmdir refuses, too.
func (f files) Rmdir(name string) error {
	return &fs.PathError{Op: "rmdir", Path: name, Err: errors.ErrUnsupported}
}

// ReadDir returns the directories in a directory, in no order.
func (f files) ReadDir(name string) ([]string, error) {
	found := make(map[string]bool)
	for file := range f {
		if below, ok := strings.CutPrefix(file, name+"/"); ok {
			dir, _, isDir := strings.Cut(below, "/")
			found[dir] = found[dir] || isDir
		}
	}
	if len(found) == 0 {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	var dirs []string
	for dir, isDir := range found {
		if isDir {
			dirs = append(dirs, dir)
		}
	}
	return dirs, nil
}
