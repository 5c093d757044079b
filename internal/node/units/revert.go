package units

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/systemd"
)

// Revert restores the properties of units that the configuration no longer places: their CPUs
// go to other owners. The journal contains the units' own names, and the configuration may
// contain aliases. So no unit is reverted before systemd has answered for each name of the
// configuration.
func (u *Units) Revert() {
	if u.Host.Units == nil || !u.Journal.Safe() || u.known.HasUnnamed(u.Settings.UnitNames()) {
		return
	}
	placed := u.placed()
	for name, originals := range u.Journal.Originals.OfUnits() {
		if u.reverting[name] || u.known.ConfiguredAs(placed, name) != "" {
			continue
		}
		u.reverting[name] = true
		p := originals[0].Path
		u.Cache.Writes.BeginRevert(p)
		u.Submit(string(p), func(ctx context.Context) Result {
			return reverted{name, p, revert(ctx, u.Host, name, originals)}
		})
	}
}

// RevertAgain allows another attempt to revert the units whose revert has failed.
func (u *Units) RevertAgain() { clear(u.reverting) }

// revert runs in a worker. It checks that systemd and the kernel have the earlier values.
func revert(ctx context.Context, h *hostenv.Host, name string, originals []undo.Original) error {
	ctx, cancel := context.WithTimeout(ctx, hostenv.CallTimeout)
	defer cancel()
	var all []systemd.Property
	for _, o := range originals {
		all = append(all, o.Properties()...)
	}
	if err := h.Units.Revert(ctx, name, all, h.Nodes); err != nil {
		return err
	}
	for _, o := range originals {
		// systemd applies a change before it answers the next question.
		st, err := o.Now(ctx, h)
		if err != nil {
			return err
		}
		if d, differs := o.Difference(h, st, nil); differs {
			return fmt.Errorf("systemd has %s %q for it, not %q", o.File, d.Now, o.Value)
		}
		if err := verify(h, o); err != nil {
			return err
		}
	}
	return nil
}

// verify checks that the kernel shows the CPUs from before. A stopped unit has no cgroup.
func verify(h *hostenv.Host, o undo.Original) error {
	if o.File != cgroup.FileCPUs {
		return nil
	}
	want, err := cpuset.Parse(o.Value)
	if err != nil {
		return fmt.Errorf("journal: original of %s in %s: %w", o.File, o.Path, err)
	}
	if want.IsEmpty() {
		want = h.Possible
	}
	st, err := h.Cgroups.Read(o.Path)
	switch {
	case errors.Is(err, cgroup.ErrGone):
		return nil
	case err != nil:
		return err
	}
	if missing := want.Intersection(st.ParentEffective).Difference(st.Effective); !missing.IsEmpty() {
		return fmt.Errorf("%s has not got CPUs %s back", o.Path, missing)
	}
	return nil
}

type reverted struct {
	name string
	path cgroup.Path // the cgroup in the journal
	err  error
}

func (r reverted) apply(u *Units, now time.Time) {
	u.Cache.Writes.EndRevert(r.path)
	if name := u.known.ConfiguredAs(u.Settings.UnitNames(), r.name); name != "" {
		u.Ask(name, now) // its properties may have changed, also after an error
	}
	switch {
	case u.known.ConfiguredAs(u.placed(), r.name) != "":
		delete(u.reverting, r.name) // the configuration contains the unit again
	case errors.Is(r.err, cgroup.ErrGone):
		// The daemon's properties are still in systemd's runtime directory. They apply if
		// the unit comes back. The next listing tries again.
		if !u.away[r.name] {
			u.Log.Warn("unit is gone, and gets its CPUs back should it come again before the next boot", "unit", r.name)
		}
		u.away[r.name] = true
	case r.err != nil:
		u.Log.Error("unit has not got its CPUs back", "unit", r.name, "error", r.err) // the next listing tries again
	default:
		delete(u.reverting, r.name)
		delete(u.away, r.name)
		u.Journal.Originals.ForgetUnit(r.name)
		u.Backoffs.Forget(func(p cgroup.Path) bool { return p == r.path }) // the unit may get the same values again soon
		u.Log.Info("unit has its CPUs back", "unit", r.name)
	}
}
