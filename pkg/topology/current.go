package topology

import (
	"io/fs"
	"path"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Current reports whether the same CPUs are present and online in the tree that is mounted on
// /sys as when t was read. It reads two files. The possible CPUs are fixed at boot.
func (t *Topology) Current(sys fs.FS) (bool, error) {
	s := sysfs{sys}
	for name, was := range map[string]cpuset.Set{"present": t.Present, "online": t.Online} {
		if is, err := s.list(path.Join(cpuDir, name)); err != nil || !is.Equal(was) {
			return false, err
		}
	}
	return true, nil
}
