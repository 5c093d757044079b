package report

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

const maxCgroups = 20000

func cpuFiles() []string {
	return []string{
		"cpuset.cpus", "cpuset.cpus.effective", "cpuset.cpus.partition", "cpuset.cpus.exclusive", "cpuset.cpus.exclusive.effective", "cpuset.cpus.isolated",
		"cpuset.mems", "cpuset.mems.effective", "cpu.weight", "cpu.idle", "cpu.max", "cpu.stat", "cgroup.type", "cgroup.events", "cgroup.subtree_control",
	}
}

// Cgroups returns a line of JSON for each cgroup of a tree, with the content of its files.
// The lines take at most limit bytes. If ctx or a limit ends the read, Cgroups returns the
// lines until then and an error.
func Cgroups(ctx context.Context, tree fs.FS, limit int) ([]byte, error) {
	var out bytes.Buffer
	n := 0
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("the time is up after %d cgroups", n)
		case d == nil:
			return err // the root cannot be read
		case err != nil:
			return fs.SkipDir // the cgroup was deleted
		case !d.IsDir():
			return nil
		case n == maxCgroups:
			return fmt.Errorf("there are more than %d cgroups", maxCgroups)
		}
		at := map[string]string{"cgroup": name}
		for _, file := range cpuFiles() {
			if data, err := fs.ReadFile(tree, path.Join(name, file)); err == nil {
				at[file] = strings.TrimSpace(string(data))
			}
		}
		line, err := json.Marshal(at)
		if err != nil {
			return err
		}
		if out.Len()+len(line) >= limit {
			return fmt.Errorf("%d cgroups take %d bytes", n, limit)
		}
		n++
		out.Write(line)
		out.WriteByte('\n')
		return nil
	})
	return out.Bytes(), err
}

// AddTree adds the units in the output of Cgroups.
func (r *Redactor) AddTree(lines []byte) {
	for line := range bytes.Lines(lines) {
		var at map[string]string
		if json.Unmarshal(line, &at) == nil {
			r.addCgroup(at["cgroup"])
		}
	}
}
