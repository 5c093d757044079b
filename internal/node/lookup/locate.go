package lookup

import (
	"errors"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// foundCgroups holds the cgroups of pods, containers and sandboxes that their names show.
type foundCgroups struct {
	pods       map[string]cgroup.Path // by UID
	containers map[string]cgroup.Path // by id of a container or sandbox
}

// findCgroups finds the cgroups of all pods and of the containers with these ids. The
// kubelet puts UIDs into the names, runtimes put ids into them. It does not read the cgroups below
// containers, because nothing bounds their number.
func findCgroups(fs *cgroup.FS, ids []string) (foundCgroups, error) {
	found := foundCgroups{pods: make(map[string]cgroup.Path), containers: make(map[string]cgroup.Path, len(ids))}
	return found, found.find(fs, "", ids)
}

// find adds the cgroups of pods below p, and the cgroups of the containers in ids. Their names show them.
func (f *foundCgroups) find(fs *cgroup.FS, p cgroup.Path, ids []string) error {
	children, err := fs.Children(p)
	if err != nil {
		return err
	}
	_, _, inPod := cgroup.PodOf(p)
	for _, child := range children {
		if uid, _, ok := cgroup.PodOf(child); ok && f.pods[uid] == "" {
			f.pods[uid] = child // its children come later
		}
		name := strings.TrimSuffix(child.Base(), ".scope")
		for _, id := range ids {
			if prefix, ok := strings.CutSuffix(name, id); ok && cgroup.IsContainerPrefix(prefix) && f.containers[id] == "" {
				f.containers[id] = child
			}
		}
		if inPod {
			continue
		}
		if err := f.find(fs, child, ids); err != nil && !errors.Is(err, cgroup.ErrGone) {
			return err
		}
	}
	return nil
}
