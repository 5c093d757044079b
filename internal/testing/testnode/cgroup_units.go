package testnode

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/cpupoold/cpupoold/internal/testing/testnode/walk"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/systemd"
)

// Units is a fake systemd for units with a cgroup in the tree, and for installed units. Like
// systemd, it writes all properties of a unit when it applies one of them (src/core/cgroup.c,
// unit_update_cgroup). So a raw write to the cgroup does not last. A unit that is not installed
// exists as long as its cgroup.
type Units struct {
	tree *Cgroups
	fs   *cgroup.FS

	mu         sync.Mutex // guards the fields below
	properties map[string]cgroup.UnitState
	installed  map[string]unitFile
	dropIns    map[string][]dropIn   // by unit
	runtime    map[string]cpuset.Set // AllowedCPUs set over D-Bus
	partitions map[string]string     // CPUSetPartition by unit
	refuse     error
	watches    map[chan struct{}]bool
	watchers   map[*unitWatch]bool
	pid        int
}

// NewUnits returns a Units without properties.
func NewUnits(tree *Cgroups) *Units {
	tree.noteEnded()
	return &Units{
		tree: tree, fs: cgroup.New(tree),
		properties: map[string]cgroup.UnitState{}, installed: map[string]unitFile{},
		dropIns: map[string][]dropIn{}, runtime: map[string]cpuset.Set{}, partitions: map[string]string{},
		watches: map[chan struct{}]bool{}, watchers: map[*unitWatch]bool{},
		pid: 1 << 20, // beyond the PIDs of the runtime
	}
}

// Refuse makes all calls fail with err until it is called with nil.
func (u *Units) Refuse(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.refuse = err
}

// SetPartition sets CPUSetPartition of a unit, as a drop-in does. It writes no cgroup.
func (u *Units) SetPartition(unit, value string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.partitions[unit] = value
}

// SetProperties implements systemd.Client.
func (u *Units) SetProperties(_ context.Context, unit string, properties []systemd.Property) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.set(unit, properties)
}

func (u *Units) set(unit string, properties []systemd.Property) error {
	if u.refuse != nil {
		return u.refuse
	}
	p, running, err := u.find(unit)
	if err != nil {
		return err
	}
	state := u.state(unit)
	for _, property := range properties {
		if err := setProperty(&state, property); err != nil {
			return err
		}
	}
	u.properties[unit] = state
	for _, property := range properties {
		if property.Name == cgroup.UnitCPUs {
			u.runtime[unit] = state.CPUs
		}
	}
	if running {
		u.apply(p, state)
	}
	return nil
}

// Apply implements systemd.Client.
func (u *Units) Apply(ctx context.Context, w cgroup.Write) error {
	unit, ok := w.Path.Unit()
	if !ok || w.Via != cgroup.DBus {
		return fmt.Errorf("apply %s: not a write to a unit", w)
	}
	return u.SetProperties(ctx, unit, []systemd.Property{{Name: w.Property, Value: w.Value}})
}

// Properties implements systemd.Client.
func (u *Units) Properties(_ context.Context, unit string) (cgroup.UnitState, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.refuse != nil {
		return cgroup.UnitState{}, u.refuse
	}
	if _, _, err := u.find(unit); err != nil {
		return cgroup.UnitState{}, err
	}
	return u.state(unit), nil
}

// Reload is a daemon-reload: it writes all properties of all units, also unset ones.
func (u *Units) Reload() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.forgetEnded()
	for unit := range u.dropIns {
		u.load(unit)
	}
	// The walk fails only without a root.
	_ = walk.Cgroups(u.fs, "", func(p cgroup.Path) error {
		if unit, ok := p.Unit(); ok {
			u.apply(p, u.state(unit))
		}
		return nil
	})
	for ch := range u.watches {
		select {
		case ch <- struct{}{}:
		default: // a wake is queued
		}
	}
}

// WatchReload implements systemd.Client.
func (u *Units) WatchReload(ctx context.Context, wake func()) error {
	ch := make(chan struct{}, 1)
	u.mu.Lock()
	u.watches[ch] = true
	u.mu.Unlock()
	defer func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.watches, ch)
	}()
	wake()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ch:
			wake()
		}
	}
}

func (u *Units) state(unit string) cgroup.UnitState {
	if state, ok := u.properties[unit]; ok {
		return state
	}
	if file, ok := u.file(unit); ok {
		return file.state
	}
	return cgroup.UnitState{Known: true, Quota: -1}
}

// forgetEnded drops the properties of ended units that are not installed, such as scopes of
// containers. A later unit of the same name starts without properties.
func (u *Units) forgetEnded() {
	for _, unit := range u.tree.takeEnded() {
		if _, ok := u.file(unit); !ok {
			delete(u.properties, unit)
			delete(u.runtime, unit)
		}
	}
}

// find returns the cgroup of a unit, and reports whether it is running.
func (u *Units) find(unit string) (p cgroup.Path, running bool, err error) {
	u.forgetEnded()
	p, running = u.tree.unit(unit)
	if _, ok := u.file(unit); !running && !ok {
		return "", false, fmt.Errorf("unit %s: %w", unit, cgroup.ErrGone)
	}
	return p, running, nil
}

// apply writes all settings of a unit. Like systemd, it enables the controllers that the unit
// needs, and continues after a failed write.
func (u *Units) apply(p cgroup.Path, s cgroup.UnitState) {
	if !s.CPUs.IsEmpty() || !s.Mems.IsEmpty() {
		u.enable(p, "+cpuset")
	}
	if s.Weight != 0 || s.Quota >= 0 {
		u.enable(p, "+cpu")
	}
	weight, quota := uint64(defaultWeight), "max"
	if s.Weight != 0 {
		weight = s.Weight
	}
	if s.Quota >= 0 {
		quota = fmt.Sprintf("%d %d", s.Quota/10, defaultPeriod)
	}
	for file, value := range map[string]string{
		cgroup.FileCPUs:   cmp.Or(s.CPUs.String(), "\n"),
		cgroup.FileMems:   cmp.Or(s.Mems.String(), "\n"),
		cgroup.FileWeight: strconv.FormatUint(weight, 10),
		cgroup.FileMax:    quota,
	} {
		_ = u.tree.Write(string(p.Join(file)), value)
	}
}

// enable enables a controller for a cgroup.
func (u *Units) enable(p cgroup.Path, controller string) {
	if p == "" {
		return
	}
	u.enable(p.Parent(), controller)
	_ = u.tree.Write(string(p.Parent().Join("cgroup.subtree_control")), controller)
}

func setProperty(s *cgroup.UnitState, p systemd.Property) (err error) {
	switch p.Name {
	case cgroup.UnitCPUs:
		s.CPUs, err = cpuset.Parse(p.Value)
	case cgroup.UnitMems:
		s.Mems, err = cpuset.Parse(p.Value)
	case cgroup.UnitWeight:
		s.Weight, err = parseUnset(p.Value)
	case cgroup.UnitQuota:
		s.Quota = -1
		if p.Value != cgroup.ValueInf && p.Value != "" {
			s.Quota, err = strconv.ParseInt(p.Value, 10, 64)
		}
	default:
		err = fmt.Errorf("unknown property %s", p.Name)
	}
	return err
}

func parseUnset(s string) (uint64, error) {
	if strings.TrimSpace(s) == "" {
		return 0, nil
	}
	return strconv.ParseUint(s, 10, 64)
}
