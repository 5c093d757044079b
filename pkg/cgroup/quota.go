package cgroup

import (
	"cmp"
	"errors"
	"fmt"
)

// The kernel's and systemd's default period of cpu.max, in microseconds, and what
// systemd rounds a quota to in its files: a hundredth of a CPU.
const (
	defaultPeriod = 100_000
	quotaStep     = 10_000
)

func (t *Target) period() int64 {
	return cmp.Or(t.Period, defaultPeriod)
}

// perSecond is the target's quota as systemd keeps it: microseconds a second,
// rounded up as runc and crun do.
func (t *Target) perSecond() int64 {
	return (t.Quota*1_000_000/t.period() + quotaStep - 1) / quotaStep * quotaStep
}

func needsQuota(t *Target, c *Current, d Driver, persisted bool) bool {
	unit := unitOf(t, d) != ""
	switch {
	case !persisted && resets(t, c):
		return false
	case t.Unlimited:
		limited := c.Exists && (c.Quota >= 0 || c.Inner != nil && c.Inner.Quota >= 0)
		return persisted || limited || unit && (!c.Unit.Known || c.Unit.Quota >= 0)
	case t.Quota > 0:
		return c.Exists && (c.Quota != t.Quota || c.Period != t.period()) || unit && (!c.Unit.Known || c.Unit.Quota != t.perSecond())
	}
	return false
}

// lift emits the writes that take a quota away.
func (d *differ) lift(it *item) {
	c := &it.current
	unit := d.byUnit(it, FileMax, c.Unit.Quota < 0)
	switch {
	case unit && (it.persistCRI || c.Exists && c.Quota >= 0 || !c.Unit.Known || c.Unit.Quota >= 0):
		d.property(it, UnitQuota, ValueInf)
	case !unit && c.NoWrite:
		d.postpone(it.Target, FileMax, "the kernel refused to write this cgroup in this pass")
	case !unit && (it.persistCRI && c.HasCPU || c.Quota >= 0):
		d.emit(it, it.Path, File, FileMax, ValueMax, it.Reason)
	}
	if c.Inner != nil && c.Inner.Quota >= 0 && !c.NoWrite {
		d.emit(it, c.Inner.Path, File, FileMax, ValueMax, it.Reason)
	}
}

// putBack emits the writes that restore a quota. systemd keeps only hundredths of a
// CPU, and its default period. The file holds the exact quota until systemd writes its
// rounded value again. crun's cgroup below is within the scope's quota anyway.
func (d *differ) putBack(it *item) {
	c := &it.current
	quota, period, hasCPU := c.Quota, c.Period, c.HasCPU
	if unitOf(it.Target, d.options.Driver) != "" && (!c.Unit.Known || c.Unit.Quota != it.perSecond()) {
		if !d.property(it, UnitQuota, fmt.Sprint(it.perSecond())) {
			return
		}
		quota, period, hasCPU = it.perSecond()*defaultPeriod/1_000_000, defaultPeriod, true
	}
	if c.Exists && (quota != it.Quota || period != it.period()) {
		d.file(it, FileMax, FormatMax(it.Quota, it.period()), hasCPU)
	}
}

func verifyQuota(t Target, s State) error {
	switch {
	case t.Unlimited:
		err := verifyUnlimited(s)
		if s.Inner != nil {
			err = errors.Join(err, verifyUnlimited(*s.Inner))
		}
		return err
	case t.Quota == 0 || s.Quota == t.Quota && s.Period == t.period():
		return nil
	case !s.HasCPU:
		return fmt.Errorf("%s has no cpu.max, want a quota of %d us in %d us: the parent does not enable the cpu controller",
			s.Path, t.Quota, t.period())
	case s.Quota < 0:
		return fmt.Errorf("%s has no quota, want %d us in %d us", s.Path, t.Quota, t.period())
	}
	return fmt.Errorf("%s has a quota of %d us in %d us, want %d us in %d us", s.Path, s.Quota, s.Period, t.Quota, t.period())
}

func verifyUnlimited(s State) error {
	if s.Quota < 0 {
		return nil
	}
	return fmt.Errorf("%s has a quota of %d us in %d us, want none", s.Path, s.Quota, s.Period)
}
