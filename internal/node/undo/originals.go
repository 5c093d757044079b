package undo

import (
	"cmp"
	"strconv"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
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

// Properties returns the originals of a unit as systemd's properties.
func Properties(originals []Original) []cgroup.Property {
	names := map[string]string{cgroup.FileCPUs: cgroup.UnitCPUs, cgroup.FileMems: cgroup.UnitMems, cgroup.FileWeight: cgroup.UnitWeight}
	var all []cgroup.Property
	for _, o := range originals {
		if name, ok := names[o.File]; ok {
			all = append(all, cgroup.Property{Name: name, Value: o.Value})
		}
	}
	return all
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
	o := Original{Path: w.Path, File: kernelFile(w), Container: w.Container}
	switch o.File {
	case cgroup.FileCPUs:
		o.Value = c.CPUs.String()
		if !c.Exists {
			o.Value = c.Recorded.String()
		}
	case cgroup.FileMems:
		o.Value = c.Mems.String()
		if !c.Exists {
			o.Value = c.RecordedMems.String()
		}
	case cgroup.FileWeight:
		o.Value = strconv.FormatUint(c.Weight, 10)
	case cgroup.FileMax:
		o.Value = cgroup.FormatMax(c.Quota, c.Period)
	}
	return o
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

// unitOriginal returns the property from which systemd sets the file.
func unitOriginal(w cgroup.Write, unit string, st cgroup.UnitState) Original {
	o := Original{Path: w.Path, File: kernelFile(w), Unit: unit}
	switch o.File {
	case cgroup.FileCPUs:
		o.Value = st.CPUs.String()
	case cgroup.FileMems:
		o.Value = st.Mems.String()
	case cgroup.FileWeight:
		o.Value = weightValue(st.Weight)
	}
	return o
}

// weightValue returns a unit's weight as text, empty if the weight is not set.
func weightValue(w uint64) string {
	if w == 0 {
		return ""
	}
	return strconv.FormatUint(w, 10)
}
