package topology

import (
	"io/fs"
	"path"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Current says that the same CPUs are possible, present and online in the tree that is
// mounted on /sys as when t was read. It reads three files.
func (t *Topology) Current(sys fs.FS) (bool, error) {
	s := sysfs{sys}
	for name, was := range map[string]cpuset.Set{"possible": t.Possible, "present": t.Present, "online": t.Online} {
		if is, err := s.list(path.Join(cpuDir, name)); err != nil || !is.Equal(was) {
			return false, err
		}
	}
	return true, nil
}
