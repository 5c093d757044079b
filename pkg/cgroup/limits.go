package cgroup

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/opencontainers/cgroups"
)

// limits emits the writes of weight and quota, once for each item. It does so at the end, or
// right after the update of the item's recorder, since a CRI update makes the runtime
// write its own values again.
func (d *differ) limits(it *item) {
	if it.limited {
		return
	}
	it.limited = true
	if needsWeight(it.Target, &it.current, d.options.Driver, it.persistCRI) {
		d.weight(it)
	}
	if needsQuota(it.Target, &it.current, d.options.Driver, it.persistCRI) {
		d.quota(it)
	}
}

// property emits the setting of a property if that is safe now, and reports
// whether it is.
func (d *differ) property(it *item, name, value string) bool {
	switch {
	case it.current.NoRecord:
		d.postpone(it.Target, name, "systemd refused in this pass")
	case it.unsettled():
		d.postpone(it.Target, name, "systemd would put the CPUs that it has recorded back with it")
	default:
		d.emit(it, it.Path, DBus, name, value, it.Reason)
		return true
	}
	return false
}

// byUnit reports whether systemd must set a weight or quota that a file contains. After a
// drift of a value that systemd has recorded, only the file is written. That is immediate, and
// restores no other value of systemd.
func (d *differ) byUnit(it *item, file string, recorded bool) bool {
	c := &it.current
	spared := recorded && c.Unit.Known && slices.Contains(c.Drifted, file) && !it.persistCRI && c.HasCPU && !c.NoWrite
	return unitOf(it.Target, d.options.Driver) != "" && !spared
}

func (d *differ) quota(it *item) {
	switch {
	case !it.current.Exists && it.Unit == "":
	case it.current.left(FileMax):
		d.postpone(it.Target, FileMax, leftAlone)
	case it.Unlimited:
		d.lift(it)
	default:
		d.putBack(it)
	}
}

// resets reports whether weight and quota must wait. The cgroup may not exist yet, without a
// unit that has them for its next start. Or a pending CRI update would overwrite them when it
// arrives. Its end starts another pass.
func resets(t *Target, c *Current) bool {
	return !c.Exists && t.Unit == "" || t.Container != "" && !c.Pending.IsEmpty()
}

func needsWeight(t *Target, c *Current, d Driver, persisted bool) bool {
	if t.Weight == 0 || !persisted && resets(t, c) {
		return false
	}
	if persisted || unitOf(t, d) == "" {
		return persisted || c.Weight != t.Weight || c.Idle
	}
	return !c.Unit.Known || c.Unit.Weight != t.Weight || c.HasCPU && c.Weight != t.Weight || c.Idle
}

func (d *differ) weight(it *item) {
	value := strconv.FormatUint(it.Weight, 10)
	switch {
	case !it.current.Exists && it.Unit == "":
	case it.current.left(FileWeight):
		d.postpone(it.Target, FileWeight, leftAlone)
	case it.current.Idle:
		d.postpone(it.Target, FileWeight, "cpu.idle is 1, and the kernel takes no weight")
	case d.byUnit(it, FileWeight, it.current.Unit.Weight == it.Weight):
		d.property(it, UnitWeight, value)
	default:
		d.file(it, FileWeight, value, it.current.HasCPU)
	}
}

// file emits the write of a file of the cpu controller, if that is possible.
func (d *differ) file(it *item, file, value string, hasCPU bool) {
	switch {
	case !hasCPU:
		d.postpone(it.Target, file, "the parent does not enable the cpu controller")
	case it.current.NoWrite:
		d.postpone(it.Target, file, "the kernel refused to write this cgroup in this pass")
	default:
		d.emit(it, it.Path, File, file, value, it.Reason)
	}
}

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

// Limits of cgroup v1 cpu.shares and of cgroup v2 cpu.weight
// (Documentation/admin-guide/cgroup-v2.rst, "Weights"). Every conversion maps the
// one interval onto the other.
const (
	minShares = 2
	maxShares = 262144
	minWeight = 1
	maxWeight = 10000
)

// minQuota is the shortest quota the kernel accepts in cpu.max, in microseconds
// (kernel/sched/core.c min_cfs_quota_period).
const minQuota = 1000

// WeightLinear converts CPU shares to the cpu.weight (1..10000) that the kubelet
// gives to pod and QoS slices (KEP-2254; kubelet cm getCPUWeight). It is a straight line from
// 2 shares to 262144. runc up to 1.3.1 and crun up to 1.22 use it for containers. Shares outside
// are clamped; 0 means unset and stays 0.
func WeightLinear(shares uint64) uint64 {
	if shares == 0 {
		return 0
	}
	shares = min(max(shares, minShares), maxShares)
	return minWeight + (shares-minShares)*(maxWeight-minWeight)/(maxShares-minShares)
}

// WeightQuadratic converts CPU shares to the cpu.weight (1..10000) that runc from
// 1.3.2 and crun from 1.23 give to containers. On its curve 1024 shares are
// the default weight of 100. Shares outside 2..262144 are clamped; 0 means unset
// and stays 0.
//
// On one node the two scales meet: compare weights of siblings only.
func WeightQuadratic(shares uint64) uint64 {
	return cgroups.ConvertCPUSharesToCgroupV2Value(shares)
}

// SharesFromWeight is the kubelet's inverse of [WeightLinear], which is how it
// reads cpu.weight (1..10000) back. Both round down, so a round trip may lose up to
// 26 shares. Weights above 10000 are clamped; 0, which no cgroup has but an idle
// one, is 0.
func SharesFromWeight(weight uint64) uint64 {
	if weight == 0 {
		return 0
	}
	weight = min(weight, maxWeight)
	return minShares + (weight-minWeight)*(maxShares-minShares)/(maxWeight-minWeight)
}

// LimitQuota returns the quota of a limit in thousandths of a CPU, and its period, in microseconds.
// The kubelet computes the same for limits.cpu (cm.MilliCPUToQuota).
func LimitQuota(milli int64) (quota, period int64) {
	const period100ms = 100_000
	return MilliCPUToQuota(milli, period100ms), period100ms
}

// MilliCPUToQuota converts a CPU limit in thousandths of a CPU to the quota in
// microseconds for a period in microseconds, as the kubelet does. The result is at least 1000,
// or 0 without a limit. If milli*period does not fit an
// int64 the quota is math.MaxInt64/1000.
func MilliCPUToQuota(milli, period int64) int64 {
	if milli <= 0 {
		return 0
	}
	if period > math.MaxInt64/milli {
		return math.MaxInt64 / 1000
	}
	return max(milli*period/1000, minQuota)
}
