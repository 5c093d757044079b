package testnode

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/systemd"
)

// unitFile is the file of a unit or of a template of units.
type unitFile struct {
	slice string
	state cgroup.UnitState // the properties in the file
}

// Install adds a stopped service, template of services (NAME@.service) or slice. allowed is its
// own AllowedCPUs; empty means unset. Earlier properties of the unit stay.
func (u *Units) Install(unit string, allowed cpuset.Set) {
	u.mu.Lock()
	defer u.mu.Unlock()
	file := unitFile{slice: "system.slice", state: cgroup.UnitState{Known: true, CPUs: allowed, Quota: -1}}
	if prefix, _, ok := strings.Cut(unit, "@"); ok { // unit_set_default_slice
		file.slice = "system-" + prefix + ".slice"
	}
	u.installed[unit] = file
}

// Start starts an installed unit. Its properties apply before its first process starts.
func (u *Units) Start(unit string) error {
	p, err := u.start(unit)
	if err != nil {
		return fmt.Errorf("start %s: %w", unit, err)
	}
	u.announce(p)
	return nil
}

func (u *Units) start(unit string) (cgroup.Path, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	p, running, err := u.find(unit)
	if err != nil || running {
		return p, err
	}
	if p, err = u.unitPath(unit); err != nil {
		return "", err
	}
	if err := u.mkdir(p); err != nil {
		return "", err
	}
	u.apply(p, u.state(unit))
	u.pid++
	return p, u.tree.Write(string(p.Join("cgroup.procs")), strconv.Itoa(u.pid))
}

// unitPath returns the cgroup of an installed unit.
func (u *Units) unitPath(unit string) (cgroup.Path, error) {
	if strings.HasSuffix(unit, ".slice") {
		return cgroup.PodPath(unit, cgroup.DriverSystemd)
	}
	file, _ := u.file(unit)
	slice, err := cgroup.PodPath(file.slice, cgroup.DriverSystemd)
	return slice.Join(unit), err
}

// mkdir creates a cgroup without controllers, and its ancestors.
func (u *Units) mkdir(p cgroup.Path) error {
	if _, err := u.fs.Children(p); err == nil {
		return nil
	}
	if err := u.mkdir(p.Parent()); err != nil {
		return err
	}
	return u.tree.Mkdir(string(p))
}

// Stop stops an installed unit. Its properties stay.
func (u *Units) Stop(unit string) error {
	u.mu.Lock()
	p, running, err := u.find(unit)
	if err == nil && running {
		err = u.tree.Remove(string(p))
	}
	u.mu.Unlock()
	if err != nil {
		return fmt.Errorf("stop %s: %w", unit, err)
	}
	if running {
		u.announce(p)
	}
	return nil
}

// Unit implements systemd.Client.
func (u *Units) Unit(_ context.Context, name string) (systemd.Unit, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.refuse != nil {
		return systemd.Unit{}, u.refuse
	}
	p, running, err := u.find(name)
	if err != nil {
		return systemd.Unit{Name: name, Load: "not-found", Active: "inactive"}, nil
	}
	unit := systemd.Unit{Name: name, Load: "loaded", Active: "active", Path: p, Files: u.files(name), Partition: u.partitions[name], UnitState: u.state(name)}
	if !running {
		unit.Active = "inactive"
		if unit.Path, err = u.unitPath(name); err != nil {
			return systemd.Unit{}, err
		}
	}
	return unit, nil
}

// Revert implements systemd.Client.
func (u *Units) Revert(_ context.Context, unit string, originals []systemd.Property, nodes cpuset.Set) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	var full []systemd.Property
	for _, p := range originals {
		switch {
		case p.Value != "":
		case p.Name == cgroup.UnitCPUs:
			full = append(full, systemd.Property{Name: p.Name, Value: u.tree.config.Possible.String()})
		case p.Name == cgroup.UnitMems:
			full = append(full, systemd.Property{Name: p.Name, Value: nodes.String()})
		}
	}
	if err := u.set(unit, full); err != nil {
		return err
	}
	return u.set(unit, originals)
}

// file returns the file of a unit, or of its template.
func (u *Units) file(unit string) (unitFile, bool) {
	if file, ok := u.installed[unit]; ok {
		return file, true
	}
	prefix, rest, ok := strings.Cut(unit, "@")
	if i := strings.LastIndexByte(rest, '.'); ok && i > 0 {
		file, ok := u.installed[prefix+"@"+rest[i:]]
		return file, ok
	}
	return unitFile{}, false
}

// unitWatch is one call of WatchUnits.
type unitWatch struct {
	units map[string]bool
	wakes chan string
}

// WatchUnits implements systemd.Client.
func (u *Units) WatchUnits(ctx context.Context, units []string, wake func(unit string)) error {
	w := &unitWatch{units: map[string]bool{}, wakes: make(chan string, 256)}
	for _, unit := range units {
		w.units[unit] = true
	}
	u.mu.Lock()
	u.watchers[w] = true
	u.mu.Unlock()
	defer func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.watchers, w)
	}()
	wake("")
	for {
		select {
		case <-ctx.Done():
			return nil
		case unit := <-w.wakes:
			wake(unit)
		}
	}
}

// announce wakes the watchers of a unit.
func (u *Units) announce(p cgroup.Path) {
	unit, _ := p.Unit()
	u.mu.Lock()
	defer u.mu.Unlock()
	for w := range u.watchers {
		if !w.units[unit] {
			continue
		}
		select {
		case w.wakes <- unit:
		default: // enough wakes are queued
		}
	}
}
