package inventory

import (
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// IDAt returns the container id in the name of a pod's cgroup p, or "". All runtimes of the
// kubelet use 64 hexadecimal digits.
func IDAt(p cgroup.Path, d cgroup.Driver) string {
	if _, _, inPod := cgroup.PodOf(p.Parent()); !inPod {
		return ""
	}
	if _, _, deeper := cgroup.PodOf(p.Parent().Parent()); deeper {
		return ""
	}
	name, isScope := strings.CutSuffix(p.Base(), ".scope")
	if isScope != (d == cgroup.DriverSystemd) {
		return ""
	}
	id := name[strings.LastIndexByte(name, '-')+1:]
	const idLength = 64
	if len(id) != idLength || strings.Trim(id, "0123456789abcdef") != "" || !cgroup.IsContainerPrefix(strings.TrimSuffix(name, id)) {
		return ""
	}
	return id
}
