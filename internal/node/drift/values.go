package drift

import (
	"strconv"

	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/retry"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// deviations returns the properties of a target that a write has changed from its desired
// value.
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
		add(cgroup.FileMax, cgroup.FormatMax(before.Quota, before.Period), cgroup.FormatMax(after.Quota, after.Period))
	}
	return all
}

// inUnit reports whether systemd holds the value of a property in a cgroup.
func inUnit(property string, u cgroup.UnitState, st cgroup.State) bool {
	const unsetWeight = 100 // systemd writes it for a weight that is not set
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

// inRecord reports whether the runtime has recorded the value of a property in a cgroup.
func inRecord(property string, r cri.Resources, f *desired.Formula, st cgroup.State) bool {
	switch property {
	case cgroup.FileCPUs:
		cpus, err := cpuset.Parse(r.CPUs)
		return err == nil && cpus.Equal(st.CPUs)
	case cgroup.FileMems:
		nodes, err := cpuset.Parse(r.Mems)
		return err == nil && nodes.Equal(st.Mems)
	case cgroup.FileWeight:
		return r.Shares != 0 && f.Weight(r.Shares) == st.Weight
	case cgroup.FileMax:
		return r.Quota > 0 && r.Quota == st.Quota && r.Period == st.Period
	}
	return false
}
