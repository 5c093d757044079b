package testnode

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Units plays systemd for the units whose cgroups are in a tree, and for those
// that are installed: it keeps properties, and whenever it applies one of them it
// applies all of that unit, which is what makes raw writes a cache
// (src/core/cgroup.c, unit_update_cgroup). A unit that is not installed exists as
// long as its cgroup does.
type Units struct {
	tree *Cgroups
	fs   *cgroup.FS

	mu        sync.Mutex // guards what follows
	held      map[string]cgroup.UnitState
	installed map[string]unitFile
	dropIns   map[string][]dropIn   // by unit
	runtime   map[string]cpuset.Set // AllowedCPUs that were set over D-Bus
	refuse    error
	watches   map[chan struct{}]bool
	watchers  map[*unitWatch]bool
	pid       int
}

// NewUnits returns a systemd for the units in the tree, without properties.
func NewUnits(tree *Cgroups) *Units {
	tree.noteEnded()
	return &Units{
		tree: tree, fs: cgroup.New(tree),
		held: map[string]cgroup.UnitState{}, installed: map[string]unitFile{},
		dropIns: map[string][]dropIn{}, runtime: map[string]cpuset.Set{},
		watches: map[chan struct{}]bool{}, watchers: map[*unitWatch]bool{},
		pid: 1 << 20, // beyond those of the runtime's
	}
}

// Refuse makes all calls fail with err until it is called with nil.
func (u *Units) Refuse(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.refuse = err
}

// SetProperties is that of cgroup.Systemd.
func (u *Units) SetProperties(_ context.Context, unit string, properties []cgroup.Property) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.set(unit, properties)
}

func (u *Units) set(unit string, properties []cgroup.Property) error {
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
	u.held[unit] = state
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

// Apply is that of cgroup.Systemd.
func (u *Units) Apply(ctx context.Context, w cgroup.Write) error {
	unit, ok := w.Path.Unit()
	if !ok || w.Via != cgroup.DBus {
		return fmt.Errorf("apply %s: not a write to a unit", w)
	}
	return u.SetProperties(ctx, unit, []cgroup.Property{{Name: w.Property, Value: w.Value}})
}

// Properties is that of cgroup.Systemd.
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

// Reload is a daemon-reload: the properties of every unit are applied again,
// also the ones that are not set.
func (u *Units) Reload() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.forgetEnded()
	for unit := range u.dropIns {
		u.load(unit)
	}
	// The walk only fails if the root is gone.
	_ = u.fs.Walk("", func(p cgroup.Path) error {
		if unit, ok := p.Unit(); ok {
			u.apply(p, u.state(unit))
		}
		return nil
	})
	for ch := range u.watches {
		select {
		case ch <- struct{}{}:
		default: // it is awake already
		}
	}
}

// WatchReload is that of cgroup.Systemd.
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
	if state, ok := u.held[unit]; ok {
		return state
	}
	if file, ok := u.file(unit); ok {
		return file.state
	}
	return cgroup.UnitState{Known: true, Quota: -1}
}

// forgetEnded drops what is held of units that have come to their end and are not
// installed, as those of containers and pods: when they are there again they begin anew.
func (u *Units) forgetEnded() {
	for _, unit := range u.tree.takeEnded() {
		if _, ok := u.file(unit); !ok {
			delete(u.held, unit)
			delete(u.runtime, unit)
		}
	}
}

// find returns the cgroup of a unit that runs.
func (u *Units) find(unit string) (p cgroup.Path, running bool, err error) {
	u.forgetEnded()
	p, running = u.tree.unit(unit)
	if _, ok := u.file(unit); !running && !ok {
		return "", false, fmt.Errorf("unit %s: %w", unit, cgroup.ErrGone)
	}
	return p, running, nil
}

// apply writes all settings of a unit; like systemd it enables the controllers
// that the unit needs, and goes on after a write that the kernel refuses.
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

// enable gives a cgroup a controller.
func (u *Units) enable(p cgroup.Path, controller string) {
	if p == "" {
		return
	}
	u.enable(p.Parent(), controller)
	_ = u.tree.Write(string(p.Parent().Join("cgroup.subtree_control")), controller)
}

func setProperty(s *cgroup.UnitState, p cgroup.Property) (err error) {
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
