package inventory

import (
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// Located are cgroups whose names say what they are for.
type Located struct {
	Pods       map[string]cgroup.Path // by UID
	Containers map[string]cgroup.Path // by id, also those of sandboxes
}

// Locate finds the cgroups of pods, which the kubelet names after their UIDs, and
// those of the containers with the given ids, which runtimes make a part of the name.
func Locate(fs *cgroup.FS, ids []string) (Located, error) {
	found := Located{Pods: make(map[string]cgroup.Path), Containers: make(map[string]cgroup.Path, len(ids))}
	err := fs.Walk("", func(p cgroup.Path) error {
		if uid, _, ok := cgroup.PodOf(p); ok && found.Pods[uid] == "" {
			found.Pods[uid] = p // what is in it comes after it
		}
		name := strings.TrimSuffix(p.Base(), ".scope")
		for _, id := range ids {
			if prefix, ok := strings.CutSuffix(name, id); ok && IsContainerPrefix(prefix) && found.Containers[id] == "" {
				found.Containers[id] = p
			}
		}
		return nil
	})
	return found, err
}

// IsContainerPrefix tells what comes before the id of a container from what comes
// before that of its monitor (crio-conmon-ID.scope).
func IsContainerPrefix(prefix string) bool {
	return prefix == "" || strings.HasSuffix(prefix, "-") && !strings.HasSuffix(prefix, "conmon-")
}
