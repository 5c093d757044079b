package power

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/workload"
)

// Feature is a power setting that pods may request, by its name in the configuration.
type Feature string

// The features.
const (
	// CStates limits the idle states that CPUs enter.
	CStates Feature = "cStates"
	// Governor is the algorithm that selects the frequency.
	Governor Feature = "governor"
	// Preference weighs speed against energy if the hardware selects the frequency.
	Preference Feature = "energyPreference"
)

// Ask holds the power settings that a container requests for its exclusive CPUs.
type Ask struct {
	// Governor and Preference are names of the kernel. An empty name requests no change.
	Governor, Preference string
	// Latency is the longest exit latency in microseconds, if Limited is true.
	Latency uint64
	Limited bool
}

// Empty reports whether nothing is requested.
func (a Ask) Empty() bool { return a == Ask{} }

// unbounded is the latency that enables every idle state.
const unbounded = ^uint64(0)

// maxLatency is the kernel's limit: 32 bits (include/linux/cpuidle.h).
const maxLatency = 1<<32 - 1

// maxName is the maximum length of a name. Governors have fewer than 16 bytes
// (CPUFREQ_NAME_LEN), energy preferences fewer than 24.
const maxName = 24

// Parse returns the requested settings. It ignores an annotation with an invalid value, or
// with a feature that is not in allowed, the features of the configuration. Each error is about one such annotation.
func Parse[F ~string](asked workload.PowerAsked, allowed []F) (Ask, []error) {
	var a Ask
	var errs []error
	for _, one := range []struct {
		feature Feature
		value   workload.PowerValue
		take    func(string) error
	}{
		{CStates, asked.CStates, a.parseCStates},
		{Governor, asked.Governor, func(s string) error { return parseName(&a.Governor, s) }},
		{Preference, asked.Preference, func(s string) error { return parseName(&a.Preference, s) }},
	} {
		switch {
		case one.value.Key == "":
		case !slices.Contains(allowed, F(one.feature)):
			errs = append(errs, fmt.Errorf("annotation %s: %q: pods may not ask for it here: the configuration's power does not have %s", one.value.Key, one.value.Value, one.feature))
		default:
			if err := one.take(one.value.Value); err != nil {
				errs = append(errs, fmt.Errorf("annotation %s: %q %w", one.value.Key, one.value.Value, err))
			}
		}
	}
	return a, errs
}

// parseCStates reads CRI-O's values: enable, disable, max_latency:MICROSECONDS.
func (a *Ask) parseCStates(s string) error {
	latency := uint64(0)
	switch number, bounded := strings.CutPrefix(s, "max_latency:"); {
	case s == "enable":
		latency = unbounded
	case s == "disable":
	case bounded:
		n, err := strconv.ParseUint(number, 10, 64)
		if err != nil || n > maxLatency {
			return fmt.Errorf("is no latency; write max_latency: and microseconds, 0 to %d", uint64(maxLatency))
		}
		latency = n
	default:
		return fmt.Errorf("is not known; write enable, disable or max_latency:MICROSECONDS")
	}
	a.Latency, a.Limited = latency, true
	return nil
}

// parseName checks the syntax of a name. Plan checks whether this kernel has it.
func parseName(to *string, s string) error {
	other := func(c rune) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' }
	if s == "" || len(s) > maxName || strings.ContainsFunc(s, other) {
		return fmt.Errorf("is not a valid name; write one like performance")
	}
	*to = s
	return nil
}
