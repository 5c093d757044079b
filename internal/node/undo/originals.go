package undo

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// kernelFile returns the file of the cgroup that a write ends in, by whichever
// way it goes.
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

// original is what a write is about to replace, as the kernel prints it.
func OriginalOf(w cgroup.Write, c cgroup.Current) Original {
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
		o.Value = MaxValue(c.Quota, c.Period)
	}
	return o
}

// UnitOriginal is the property of a systemd unit that a write is about to replace,
// whichever way it goes: systemd has set the file by it, or will.
func UnitOriginal(w cgroup.Write, unit string, st cgroup.UnitState) Original {
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

// weightValue is a unit's weight in text, empty if it is not set.
func weightValue(w uint64) string {
	if w == 0 {
		return ""
	}
	return strconv.FormatUint(w, 10)
}

// Unlimited is what cpu.max is where nobody has asked for a quota.
const Unlimited = cgroup.ValueMax + " 100000"

// MaxValue is cpu.max as the kernel prints it.
func MaxValue(quota, period int64) string {
	if quota < 0 {
		return fmt.Sprintf("%s %d", cgroup.ValueMax, period)
	}
	return fmt.Sprintf("%d %d", quota, period)
}

// CodeNotWritten is the code of a journal that is not written.
const CodeNotWritten pools.Code = "JournalNotWritten"

var ErrSlowDisk = errors.New("the disk does not answer")

// JournalPause is how long a journal that could not be written is left alone.
const JournalPause = 5 * time.Second
