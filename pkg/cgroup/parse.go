package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// The parsers are strict: text that the kernel would not print is an error, never a
// default.

var errFormat = errors.New("not what the kernel prints")

func line(data []byte) (string, error) {
	s, ok := strings.CutSuffix(string(data), "\n")
	if !ok || strings.ContainsRune(s, '\n') {
		return "", fmt.Errorf("%w: want one line, have %s", errFormat, abbreviate(string(data)))
	}
	return s, nil
}

// parseCPUs reads cpuset.cpus and its relatives: a list, or an empty line.
func parseCPUs(data []byte) (cpuset.Set, error) {
	s, err := line(data)
	if err != nil {
		return cpuset.Set{}, err
	}
	return cpuset.Parse(s)
}

// parseWeight reads cpu.weight: 1..10000, and 0 on kernels before 6.12 while
// cpu.idle is set.
func parseWeight(data []byte) (uint64, error) {
	s, err := line(data)
	if err != nil {
		return 0, err
	}
	w, err := parseUint(s)
	if err != nil || w > maxWeight {
		return 0, fmt.Errorf("%w: weight %s", errFormat, abbreviate(s))
	}
	return w, nil
}

// parseFlag reads files that hold 0 or 1.
func parseFlag(data []byte) (bool, error) {
	switch string(data) {
	case "0\n":
		return false, nil
	case "1\n":
		return true, nil
	}
	return false, fmt.Errorf("%w: want 0 or 1, have %s", errFormat, abbreviate(string(data)))
}

// parseMax reads cpu.max: "max PERIOD" or "QUOTA PERIOD" in microseconds. The
// quota for "max" is -1.
func parseMax(data []byte) (quota, period int64, err error) {
	s, err := line(data)
	if err != nil {
		return 0, 0, err
	}
	first, second, ok := strings.Cut(s, " ")
	if !ok {
		return 0, 0, fmt.Errorf("%w: cpu.max %s", errFormat, abbreviate(s))
	}
	quota = -1
	if first != ValueMax {
		quota, err = parsePositive(first)
	}
	if err == nil {
		period, err = parsePositive(second)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("%w: cpu.max %s", errFormat, abbreviate(s))
	}
	return quota, period, nil
}

// parsePopulated finds "populated" in cgroup.events, a file of "key value"
// lines that newer kernels may add to.
func parsePopulated(data []byte) (bool, error) {
	value, ok := valueOf(data, "populated")
	if !ok {
		return false, fmt.Errorf("%w: no populated in %s", errFormat, abbreviate(string(data)))
	}
	return parseFlag(value)
}

// valueOf returns the value of a key in a file of "key value" lines, with the end of its line.
func valueOf(data []byte, key string) ([]byte, bool) {
	for l := range bytes.Lines(data) {
		if name, value, ok := bytes.Cut(l, []byte(" ")); ok && string(name) == key {
			return value, true
		}
	}
	return nil, false
}

func parsePositive(s string) (int64, error) {
	n, err := parseUint(s)
	if err != nil || n == 0 || n > 1<<62 {
		return 0, errFormat
	}
	return int64(n), nil
}

// parseUint is ParseUint without what the kernel does not print: signs, leading
// zeros.
func parseUint(s string) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || strconv.FormatUint(n, 10) != s {
		return 0, errFormat
	}
	return n, nil
}

// FormatMax returns the content of cpu.max as the kernel prints it. A negative quota means
// no quota.
func FormatMax(quota, period int64) string {
	if quota < 0 {
		return fmt.Sprintf("%s %d", ValueMax, period)
	}
	return fmt.Sprintf("%d %d", quota, period)
}
