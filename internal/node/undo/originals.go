package undo

import (
	"cmp"
	"strconv"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/systemd"
)

// Original is the value of a file or property before the daemon's first write.
type Original struct {
	Path cgroup.Path `json:"path"`
	File string      `json:"file"` // cpuset.cpus, cpuset.mems, cpu.weight or cpu.max
	// Container is the CRI id, if the cgroup is a container's.
	Container string `json:"container,omitempty"`
	// Unit is the systemd unit, if the configuration names it.
	Unit string `json:"unit,omitempty"`
	// Value is the kernel's content, or the property of a unit; empty if it is not set.
	Value string `json:"value"`
}

// Key is the place of an original. A unit has no path, because its slice may change.
type Key struct {
	Path cgroup.Path `json:"path,omitempty"`
	Unit string      `json:"unit,omitempty"`
	File string      `json:"file"`
}

// Key returns the place of the original.
func (o Original) Key() Key {
	if o.Unit != "" {
		return Key{Unit: o.Unit, File: o.File}
	}
	return Key{Path: o.Path, File: o.File}
}

// Compare orders originals by path and file.
func (o Original) Compare(p Original) int {
	return cmp.Or(cmp.Compare(o.Path, p.Path), cmp.Compare(o.File, p.File))
}

// Properties returns the original of a unit as systemd's property. It returns none for a file without a property.
func (o Original) Properties() []systemd.Property {
	names := map[string]string{cgroup.FileCPUs: cgroup.UnitCPUs, cgroup.FileMems: cgroup.UnitMems, cgroup.FileWeight: cgroup.UnitWeight}
	if name, ok := names[o.File]; ok {
		return []systemd.Property{{Name: name, Value: o.Value}}
	}
	return nil
}

// kernelFile returns the file of the cgroup that a write changes, by whichever way.
func kernelFile(w cgroup.Write) string {
	switch w.Property {
	case cgroup.CRICPUs, cgroup.UnitCPUs:
		return cgroup.FileCPUs
	case cgroup.CRIMems, cgroup.UnitMems:
		return cgroup.FileMems
	case cgroup.UnitWeight:
		return cgroup.FileWeight
	case cgroup.UnitQuota:
		return cgroup.FileMax
	}
	return w.Property
}

// originalOf returns the kernel's value, or the runtime's record before the cgroup exists.
func originalOf(w cgroup.Write, c cgroup.Current) Original {
	if !c.Exists {
		c.CPUs, c.Mems = c.Recorded, c.RecordedMems
	}
	file := kernelFile(w)
	return Original{Path: w.Path, File: file, Container: w.Container, Value: value(file, "", c.State)}
}

// innerOriginal returns the value of the inner cgroup in the file of a write, or the zero value
// without an inner cgroup or such a file. It reports whether the value differs from that of c.
func innerOriginal(w cgroup.Write, c cgroup.Current) (o Original, isDistinct bool) {
	if c.Inner == nil {
		return o, false
	}
	switch file := kernelFile(w); file {
	case cgroup.FileCPUs, cgroup.FileMems:
		isDistinct = c.Inner.HasCPUSet
	case cgroup.FileMax:
		isDistinct = c.Inner.HasCPU
	default: // the daemon does not write it
		return o, false
	}
	o = originalOf(cgroup.Write{Path: c.Inner.Path, Property: w.Property}, cgroup.Current{State: *c.Inner, Exists: true})
	return o, isDistinct && o.Value != originalOf(w, c).Value
}

// value returns the content of a file of a cgroup, or the property from which systemd sets the file of a unit. The
// property is empty if it is not set.
func value(file, unit string, st cgroup.State) string {
	switch {
	case file == cgroup.FileCPUs:
		return st.CPUs.String()
	case file == cgroup.FileMems:
		return st.Mems.String()
	case file == cgroup.FileWeight && (unit == "" || st.Weight != 0):
		return strconv.FormatUint(st.Weight, 10)
	case file == cgroup.FileMax && unit == "":
		return cgroup.FormatMax(st.Quota, st.Period)
	}
	return ""
}

// stateOf returns the values that systemd has for a unit, without its quota: the daemon does not write it.
func stateOf(st cgroup.UnitState) cgroup.State {
	return cgroup.State{CPUs: st.CPUs, Mems: st.Mems, Weight: st.Weight}
}
