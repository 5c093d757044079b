package testnode

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// dropIn is a file of an administrator's that gives a unit CPUs.
type dropIn struct {
	name string
	cpus cpuset.Set
}

// control is the base name of the files in which systemd keeps AllowedCPUs that was
// set over D-Bus. The one that lasts goes before that of this boot.
const (
	control = "50-AllowedCPUs.conf"
	lasting = "/etc/systemd/system.control/"
)

// DropIn writes a file that gives a unit CPUs; systemd reads it at the next Reload.
func (u *Units) DropIn(unit, name string, allowed cpuset.Set) {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := append(u.dropIns[unit], dropIn{name, allowed})
	slices.SortFunc(all, func(a, b dropIn) int { return cmp.Compare(path.Base(a.name), path.Base(b.name)) })
	u.dropIns[unit] = all
}

// SetForGood is `systemctl set-property unit AllowedCPUs=`: at once, and over reboots.
func (u *Units) SetForGood(unit string, allowed cpuset.Set) {
	u.DropIn(unit, lasting+unit+".d/"+control, allowed)
	u.mu.Lock()
	defer u.mu.Unlock()
	state := u.state(unit)
	state.CPUs = allowed
	u.held[unit] = state
	if p, running, err := u.find(unit); err == nil && running {
		u.apply(p, state)
	}
}

// load reads a unit's files again, in the order of their base names: each adds to what
// was said before it, but for those that systemd writes itself, which begin anew.
func (u *Units) load(unit string) {
	state := u.state(unit)
	var cpus cpuset.Set
	if file, ok := u.file(unit); ok {
		cpus = file.state.CPUs
	}
	set, forThisBoot := u.runtime[unit]
	for _, d := range u.dropIns[unit] {
		base := path.Base(d.name)
		if forThisBoot && base >= control {
			cpus, forThisBoot = set, false
		}
		if cpus = cpus.Union(d.cpus); base == control {
			cpus = d.cpus
		}
	}
	if forThisBoot {
		cpus = set
	}
	state.CPUs = cpus
	u.held[unit] = state
}

func (u *Units) files(unit string) []string {
	var names []string
	for _, d := range u.dropIns[unit] {
		names = append(names, d.name)
	}
	return names
}

// ReadFile returns what is in a drop-in.
func (u *Units) ReadFile(name string) ([]byte, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, all := range u.dropIns {
		for _, d := range all {
			if d.name == name {
				return fmt.Appendf(nil, "%s=\n%[1]s=%s\n", cgroup.UnitCPUs, d.cpus), nil
			}
		}
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}
