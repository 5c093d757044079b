package cgroup

import (
	"slices"
	"strconv"
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
	case it.current.NoSeal:
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
