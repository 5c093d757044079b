package systemd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
	"github.com/opencontainers/cgroups/systemd"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Property is a setting of a unit (systemd.resource-control(5)) in text: CPUs and
// NUMA nodes as a list, weights as numbers, the quota as microseconds a second or
// cgroup.ValueInf. The empty value is "not set". Kernels before
// 7.0 then keep the CPUs and NUMA nodes of a cgroup with tasks: see [Client.Revert].
type Property struct {
	Name, Value string
}

// unset is systemd's value for weights that are not set and for no quota
// (CGROUP_WEIGHT_INVALID, USEC_INFINITY).
const unset = math.MaxUint64

const minWeight, maxWeight = 1, 10000 // CGROUP_WEIGHT_MIN, CGROUP_WEIGHT_MAX

// encode returns what systemd wants on the wire. CPUs that are not possible are
// left out: the kernel would refuse the whole list for them.
func (p Property) encode(possible cpuset.Set) (v godbus.Variant, err error) {
	value, err := p.wire(possible)
	if err != nil {
		return v, fmt.Errorf("encode %s=%.120q: %w", p.Name, p.Value, err)
	}
	return godbus.MakeVariant(value), nil
}

func (p Property) wire(possible cpuset.Set) (any, error) {
	switch p.Name {
	case cgroup.UnitCPUs:
		return wireSet(p.Value, possible)
	case cgroup.UnitMems:
		return wireSet(p.Value, cpuset.Set{})
	case cgroup.UnitWeight:
		if p.Value == "" {
			return uint64(unset), nil
		}
		w, err := strconv.ParseUint(p.Value, 10, 64)
		if err != nil || w < minWeight || w > maxWeight {
			return nil, fmt.Errorf("want a weight from %d to %d", minWeight, maxWeight)
		}
		return w, nil
	case cgroup.UnitQuota:
		if p.Value == "" || p.Value == cgroup.ValueInf {
			return uint64(unset), nil
		}
		quota, err := strconv.ParseUint(p.Value, 10, 63)
		if err != nil || quota == 0 {
			return nil, fmt.Errorf("want microseconds a second, or %s", cgroup.ValueInf)
		}
		return quota, nil
	}
	return nil, fmt.Errorf("not a property that is set here")
}

// wireSet is systemd's mask, see decodeCPUs.
func wireSet(value string, possible cpuset.Set) ([]byte, error) {
	if value == "" {
		return []byte{}, nil
	}
	set, err := cpuset.Parse(value)
	if err != nil {
		return nil, err
	}
	if !possible.IsEmpty() {
		set = set.Intersection(possible)
	}
	if set.IsEmpty() {
		return nil, fmt.Errorf("none of these is possible (%s)", possible)
	}
	return systemd.RangeToBits(set.String())
}

// decodeCPUs reads systemd's mask: bit j of byte i is CPU, or NUMA node, 8i+j
// (src/shared/cpu-set-util.c).
func decodeCPUs(mask []byte) (cpuset.Set, error) {
	var cpus []int
	for i, b := range mask {
		for j := range 8 {
			if b&(1<<j) == 0 {
				continue
			}
			cpu := 8*i + j
			if cpu >= cpuset.MaxCPUs {
				return cpuset.Set{}, fmt.Errorf("number %d is above %d", cpu, cpuset.MaxCPUs-1)
			}
			cpus = append(cpus, cpu)
		}
	}
	return cpuset.Of(cpus...), nil
}

func unitInterface(unit string) (string, error) {
	switch {
	case strings.HasSuffix(unit, ".slice"):
		return "Slice", nil
	case strings.HasSuffix(unit, ".scope"):
		return "Scope", nil
	case strings.HasSuffix(unit, ".service"):
		return "Service", nil
	}
	return "", fmt.Errorf("unit %.120q is neither slice, scope nor service: it has no cgroup", unit)
}

// Unit is a unit as systemd knows it, running or not.
type Unit struct {
	Name   string // unit's own name, which may differ from the alias in the query.
	Load   string // LoadState: loaded; not-found, masked, error or bad-setting for a unit that cannot be started.
	Active string // ActiveState: active, reloading, activating, deactivating, inactive or failed
	// Path is the unit's cgroup, and for a stopped unit its future cgroup; empty for a
	// unit that is not loaded.
	Path  cgroup.Path
	Files []string // files that the unit was read from, including its drop-ins
	// Partition is CPUSetPartition if that is root or isolated. It is empty for member, which
	// systemd may report for a unit without the property (not verified: no systemd 261 was
	// run), and before systemd 261, which introduced it. If the kernel refuses the
	// partition, systemd logs a warning and goes on, so the value does not show the state.
	Partition string
	// UnitState holds its settings, with which a stopped unit starts.
	cgroup.UnitState
}

// Loaded reports whether the unit can be started.
func (u Unit) Loaded() bool { return u.Load == "loaded" }

// Unit returns the state of a service, scope or slice. systemd loads it if
// necessary. For an unknown unit, Unit returns no error, and Loaded returns false.
func (c *Client) Unit(ctx context.Context, name string) (Unit, error) {
	conn, err := c.connect(ctx)
	if err != nil {
		return Unit{}, err
	}
	u, err := readNamed(ctx, conn, name)
	if err != nil {
		return Unit{}, fmt.Errorf("read unit %.120q: %w", name, err)
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
	if u.UnitState, err = readUnit(ctx, conn, u.Name); err == nil {
		u.Partition, err = partitionOf(ctx, conn, u.Name, kind)
	}
	var group, slice string
	if err == nil {
		group, err = unitProperty[string](ctx, conn, u.Name, kind, "ControlGroup")
	}
	if err == nil && group == "" {
		if slice, err = unitProperty[string](ctx, conn, u.Name, kind, "Slice"); err == nil {
			group, err = plannedGroup(u.Name, slice)
		}
	}
	if err == nil {
		u.Path, err = cgroup.ParsePath(group)
	}
	return u, err
}

// partitionOf returns CPUSetPartition of a unit if it is root or isolated. It returns "" for
// all other values, and if this version of systemd does not have the property.
func partitionOf(ctx context.Context, conn *dbus.Conn, unit, kind string) (string, error) {
	p, err := conn.GetUnitTypePropertyContext(ctx, unit, kind, cgroup.UnitPartition)
	if err != nil && !isUnknownProperty(err) {
		return "", err
	}
	if err == nil && p != nil {
		switch value, _ := p.Value.Value().(string); cgroup.PartitionType(value) {
		case cgroup.RootPartition, cgroup.IsolatedPartition:
			return value, nil
		}
	}
	return "", nil
}

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
		p, err := cgroup.SlicePath(unit)
		return string(p), err
	}
	parent, err := cgroup.SlicePath(slice)
	if err != nil {
		return "", err
	}
	return string(parent.Join(escapeGroup(unit))), nil
}

// escapeGroup is systemd's cg_escape: names that the kernel may want for its own
// files get an underscore.
func escapeGroup(name string) string {
	first, _, _ := strings.Cut(name, ".")
	taken := []string{"", "cgroup", "cpu", "cpuacct", "cpuset", "io", "blkio", "memory", "devices", "pids"}
	if slices.Contains(taken, first) || strings.HasPrefix(name, "_") {
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
func (c *Client) Revert(ctx context.Context, unit string, originals []Property, nodes cpuset.Set) error {
	var full []Property
	for _, p := range originals {
		switch {
		case p.Value != "":
		case p.Name == cgroup.UnitCPUs:
			full = append(full, Property{cgroup.UnitCPUs, c.possible.String()})
		case p.Name == cgroup.UnitMems:
			full = append(full, Property{cgroup.UnitMems, nodes.String()})
		}
	}
	if len(full) > 0 {
		if err := c.SetProperties(ctx, unit, full); err != nil {
			return err
		}
	}
	return c.SetProperties(ctx, unit, originals)
}
