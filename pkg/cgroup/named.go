package cgroup

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Unit is a unit as systemd knows it, running or not.
type Unit struct {
	Name   string // unit's own name, which may differ from the alias in the query.
	Load   string // LoadState: loaded; not-found, masked, error or bad-setting for a unit that cannot be started.
	Active string // ActiveState: active, reloading, activating, deactivating, inactive or failed
	// Path is the unit's cgroup, and for a stopped unit its future cgroup; empty for a
	// unit that is not loaded.
	Path  Path
	Files []string // files that the unit was read from, including its drop-ins
	// Partition is CPUSetPartition if that is root or isolated. It is empty for member, which
	// systemd may report for a unit without the property (not verified: no systemd 261 was
	// run), and before systemd 261, which introduced it. If the kernel refuses the
	// partition, systemd logs a warning and goes on, so the value does not show the state.
	Partition string
	// UnitState holds its settings. A stopped unit starts with
	// them.
	UnitState
}

// loaded is the LoadState of a unit that can be started.
const loaded = "loaded"

// Loaded reports whether the unit can be started.
func (u Unit) Loaded() bool { return u.Load == loaded }

// Unit returns the state of a service, scope or slice. systemd loads it if
// necessary. For an unknown unit, Unit returns no error, and Loaded returns false.
func (s *Systemd) Unit(ctx context.Context, name string) (Unit, error) {
	conn, err := s.connect(ctx)
	if err != nil {
		return Unit{}, err
	}
	u, err := readNamed(ctx, conn, name)
	if err != nil {
		return Unit{}, fmt.Errorf("read unit %s: %w", abbreviate(name), err)
	}
	return u, nil
}

func readNamed(ctx context.Context, conn *dbus.Conn, name string) (Unit, error) {
	kind, err := unitInterface(name)
	if err != nil {
		return Unit{}, err
	}
	// Its object exists for every name: systemd loads the unit to answer.
	general, err := conn.GetUnitPropertiesContext(ctx, name)
	if err != nil {
		return Unit{}, err
	}
	u := Unit{Load: text(general, "LoadState"), Active: text(general, "ActiveState"), Name: text(general, "Id")}
	if !u.Loaded() {
		return u, nil
	}
	u.Files, _ = general["DropInPaths"].([]string)
	if fragment := text(general, "FragmentPath"); fragment != "" {
		u.Files = append([]string{fragment}, u.Files...)
	}
	if u.UnitState, err = readUnit(ctx, conn, u.Name); err != nil {
		return Unit{}, err
	}
	if u.Partition, err = partitionOf(ctx, conn, u.Name, kind); err != nil {
		return Unit{}, err
	}
	group, err := unitProperty[string](ctx, conn, u.Name, kind, "ControlGroup")
	if err != nil {
		return Unit{}, err
	}
	if group == "" {
		slice, err := unitProperty[string](ctx, conn, u.Name, kind, "Slice")
		if err != nil {
			return Unit{}, err
		}
		group, err = plannedGroup(u.Name, slice)
		if err != nil {
			return Unit{}, err
		}
	}
	u.Path, err = ParsePath(group)
	return u, err
}

// partitionOf returns CPUSetPartition of a unit if it is root or isolated. It returns "" for
// all other values, and if this version of systemd does not have the property.
func partitionOf(ctx context.Context, conn *dbus.Conn, unit, kind string) (string, error) {
	p, err := conn.GetUnitTypePropertyContext(ctx, unit, kind, UnitPartition)
	if err != nil && !isUnknownProperty(err) {
		return "", err
	}
	if err == nil && p != nil {
		switch value, _ := p.Value.Value().(string); PartitionType(value) {
		case RootPartition, IsolatedPartition:
			return value, nil
		}
	}
	return "", nil
}

// isUnknownProperty reports whether err states that systemd does not have a property.
func isUnknownProperty(err error) bool {
	e, ok := errors.AsType[godbus.Error](err)
	return ok && e.Name == "org.freedesktop.DBus.Error.UnknownProperty"
}

func text(properties map[string]any, name string) string {
	s, _ := properties[name].(string)
	return s
}

// plannedGroup is the cgroup that a unit gets in its slice when it starts.
func plannedGroup(unit, slice string) (string, error) {
	if strings.HasSuffix(unit, ".slice") {
		p, err := slicePath(unit)
		return string(p), err
	}
	parent, err := slicePath(slice)
	if err != nil {
		return "", err
	}
	return string(parent.Join(escapeGroup(unit))), nil
}

// escapeGroup is systemd's cg_escape: names that the kernel may want for its own
// files get an underscore.
func escapeGroup(name string) string {
	first, _, _ := strings.Cut(name, ".")
	switch first {
	case "", "cgroup", "cpu", "cpuacct", "cpuset", "io", "blkio", "memory", "devices", "pids":
		return "_" + name
	}
	if strings.HasPrefix(name, "_") {
		return "_" + name
	}
	return name
}

// Revert restores properties of a unit that were changed over D-Bus until the next boot,
// each to its original value. An empty value means that it was not
// set. Before kernel 7.0, clearing AllowedCPUs and AllowedMemoryNodes does not change the
// kernel's value on a cgroup with tasks. So all CPUs, or all of nodes (the NUMA nodes with
// memory), are set first. If the unit no longer exists,
// Revert returns ErrGone.
//
// An empty setting remains in systemd's runtime directory until the next boot,
// and takes precedence over later changes of the unit's files.
func (s *Systemd) Revert(ctx context.Context, unit string, originals []Property, nodes cpuset.Set) error {
	var full []Property
	for _, p := range originals {
		switch {
		case p.Value != "":
		case p.Name == UnitCPUs:
			full = append(full, Property{UnitCPUs, s.possible.String()})
		case p.Name == UnitMems:
			full = append(full, Property{UnitMems, nodes.String()})
		}
	}
	if len(full) > 0 {
		if err := s.SetProperties(ctx, unit, full); err != nil {
			return err
		}
	}
	return s.SetProperties(ctx, unit, originals)
}
