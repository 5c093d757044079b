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

// dropIn is an administrator's file with CPUs of a unit.
type dropIn struct {
	name string
	cpus cpuset.Set
}

// controlFile is the base name of the files in which systemd keeps AllowedCPUs set over D-Bus. A
// file in the directory lastingDir survives reboots, and precedes the file of the current boot.
const (
	controlFile = "50-AllowedCPUs.conf"
	lastingDir  = "/etc/systemd/system.control/"
)

// DropIn writes a file with CPUs of a unit. systemd reads it at the next Reload.
func (u *Units) DropIn(unit, name string, allowed cpuset.Set) {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := append(u.dropIns[unit], dropIn{name, allowed})
	slices.SortFunc(all, func(a, b dropIn) int { return cmp.Compare(path.Base(a.name), path.Base(b.name)) })
	u.dropIns[unit] = all
}

// SetForGood is `systemctl set-property unit AllowedCPUs=`: it takes effect immediately and
// survives reboots.
func (u *Units) SetForGood(unit string, allowed cpuset.Set) {
	u.DropIn(unit, lastingDir+unit+".d/"+controlFile, allowed)
	u.mu.Lock()
	defer u.mu.Unlock()
	state := u.state(unit)
	state.CPUs = allowed
	u.properties[unit] = state
	if p, running, err := u.find(unit); err == nil && running {
		u.apply(p, state)
	}
}

// load reads the files of a unit again, in the order of their base names. Each file adds its CPUs
// to the CPUs of earlier files. A file that systemd itself wrote replaces them.
func (u *Units) load(unit string) {
	state := u.state(unit)
	var cpus cpuset.Set
	if file, ok := u.file(unit); ok {
		cpus = file.state.CPUs
	}
	set, forThisBoot := u.runtime[unit]
	for _, d := range u.dropIns[unit] {
		base := path.Base(d.name)
		if forThisBoot && base >= controlFile {
			cpus, forThisBoot = set, false
		}
		if cpus = cpus.Union(d.cpus); base == controlFile {
			cpus = d.cpus
		}
	}
	if forThisBoot {
		cpus = set
	}
	state.CPUs = cpus
	u.properties[unit] = state
}

func (u *Units) files(unit string) []string {
	var names []string
	for _, d := range u.dropIns[unit] {
		names = append(names, d.name)
	}
	return names
}

// ReadFile returns the content of a drop-in.
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
