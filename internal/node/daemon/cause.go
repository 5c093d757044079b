package daemon

import (
	"strconv"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/retry"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// evidence is what is known of a foreign write. inotify does not tell who wrote, so
// this is all there is. "The value" is the one that was found in place of the
// daemon's; had is before the write, has after it.
type evidence struct {
	// recordKnown says that the runtime told what it has on record before and after.
	recordKnown, recordHad, recordHas bool
	// unitKnown says the same of systemd.
	unitKnown, unitHad, unitHas bool
	// reload says that systemd has reloaded its units about then.
	reload bool
	// kubelets says that this is the slice of a pod, and the value the one that was
	// there before the daemon's.
	kubelets bool
}

// cause tells who has written. Whatever else could explain the evidence makes it
// unknown.
func (e evidence) cause() telemetry.Cause {
	switch {
	case e.recordKnown && !e.recordHad && e.recordHas:
		return telemetry.CauseRuntime // nobody else can change its record
	case e.unitKnown && e.unitHad && e.unitHas && e.reload:
		return telemetry.CauseSystemd // nobody told it anything, and it has applied what it had
	case e.unitKnown && !e.unitHad && e.unitHas && e.kubelets && !e.reload:
		return telemetry.CauseKubelet // an administrator would not know this value
	}
	return telemetry.CauseUnknown
}

// deviations compare a cgroup before and after somebody has written to it.
func deviations(t cgroup.Target, before, after cgroup.State) []retry.Deviation {
	var all []retry.Deviation
	add := func(property, was, is string) {
		all = append(all, retry.Deviation{Property: property, Was: was, Is: is})
	}
	if want := t.CPUs; !want.IsEmpty() {
		switch a, b := before.Inner, after.Inner; {
		case before.CPUs.Equal(want) && !after.CPUs.Equal(want):
			add(cgroup.FileCPUs, before.CPUs.String(), after.CPUs.String())
		case a != nil && b != nil && a.CPUs.Equal(want) && !b.CPUs.Equal(want):
			add(cgroup.FileCPUs, a.CPUs.String(), b.CPUs.String())
		}
	}
	if want := t.Mems; !want.IsEmpty() && before.Mems.Equal(want) && !after.Mems.Equal(want) {
		add(cgroup.FileMems, before.Mems.String(), after.Mems.String())
	}
	if want := t.Weight; want != 0 && before.Weight == want && after.Weight != want {
		add(cgroup.FileWeight, strconv.FormatUint(before.Weight, 10), strconv.FormatUint(after.Weight, 10))
	}
	lifted := t.Unlimited && before.Quota < 0 && after.Quota >= 0
	if lifted || t.Quota > 0 && before.Quota == t.Quota && after.Quota != t.Quota {
		add(cgroup.FileMax, undo.MaxValue(before.Quota, before.Period), undo.MaxValue(after.Quota, after.Period))
	}
	return all
}

// inUnit says that systemd holds the value that a property has in a cgroup.
func inUnit(property string, u cgroup.UnitState, st cgroup.State) bool {
	const unsetWeight = 100 // what systemd writes for a weight that is not set
	switch property {
	case cgroup.FileCPUs:
		return u.CPUs.Equal(st.CPUs)
	case cgroup.FileMems:
		return u.Mems.Equal(st.Mems)
	case cgroup.FileWeight:
		return u.Weight == st.Weight || u.Weight == 0 && st.Weight == unsetWeight
	case cgroup.FileMax:
		if u.Quota < 0 || st.Quota < 0 || st.Period <= 0 {
			return u.Quota < 0 && st.Quota < 0
		}
		return u.Quota == st.Quota*1_000_000/st.Period
	}
	return false
}

// inRecord says the same of what the runtime has on record.
func inRecord(property string, r cri.Resources, f config.WeightFormula, st cgroup.State) bool {
	switch property {
	case cgroup.FileCPUs:
		cpus, err := cpuset.Parse(r.CPUs)
		return err == nil && cpus.Equal(st.CPUs)
	case cgroup.FileMems:
		nodes, err := cpuset.Parse(r.Mems)
		return err == nil && nodes.Equal(st.Mems)
	case cgroup.FileWeight:
		return r.Shares != 0 && desired.ContainerWeight(f, r.Shares) == st.Weight
	case cgroup.FileMax:
		return r.Quota > 0 && r.Quota == st.Quota && r.Period == st.Period
	}
	return false
}
