package cgroup

import (
	"bytes"
	"fmt"
	"strconv"
	"time"
)

// Usage is the CPU time that the tasks of a cgroup, and of those below it, have used
// since it was made (usage_usec of cpu.stat, which needs no controller).
func (f *FS) Usage(p Path) (time.Duration, error) {
	return readOne(f, p, "cpu.stat", parseUsage)
}

func parseUsage(data []byte) (time.Duration, error) {
	value, ok := valueOf(data, "usage_usec")
	if !ok {
		return 0, fmt.Errorf("%.100q has no usage_usec", data)
	}
	us, err := strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64)
	if err != nil || us < 0 || us > int64((1<<63-1)/time.Microsecond) {
		return 0, fmt.Errorf("usage_usec %.40q is not a number of microseconds", value)
	}
	return time.Duration(us) * time.Microsecond, nil
}
