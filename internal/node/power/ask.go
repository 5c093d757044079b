package power

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/workload"
)

// Feature is something that containers may ask for, as the configuration names it.
type Feature string

// The features.
const (
	// CStates: which idle states CPUs may enter.
	CStates Feature = "cStates"
	// Governor: what chooses their frequency.
	Governor Feature = "governor"
	// Preference: between speed and energy, where the hardware chooses the frequency.
	Preference Feature = "energyPreference"
)

// Features are all of them.
func Features() []Feature { return []Feature{CStates, Governor, Preference} }

// Ask is what a container asks of its CPUs.
type Ask struct {
	// Governor and Preference are names of the kernel's; empty: as it is.
	Governor, Preference string
	// Latency bounds the idle states: those that take longer to leave are disabled, in
	// microseconds. Limited says that it is asked for at all.
	Latency uint64
	Limited bool
}

// Empty says that nothing is asked.
func (a Ask) Empty() bool { return a == Ask{} }

// unbounded is the latency with which every idle state is allowed.
const unbounded = ^uint64(0)

// maxLatency is the greatest that makes a difference: the kernel's latencies are 32 bits
// (include/linux/cpuidle.h).
const maxLatency = 1<<32 - 1

// maxName bounds names: the kernel's are shorter than 16 bytes (CPUFREQ_NAME_LEN), those
// of preferences shorter than 24.
const maxName = 24

// Parse reads what a container asks for, as far as it may. Each error is about one
// annotation, of which nothing is taken; the others are as good as ever.
func Parse(asked workload.PowerAsked, allowed []Feature) (Ask, []error) {
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
		case !slices.Contains(allowed, one.feature):
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

// parseName reads a word of the kernel's. Whether this kernel has it Plan finds out.
func parseName(to *string, s string) error {
	other := func(c rune) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' }
	if s == "" || len(s) > maxName || strings.ContainsFunc(s, other) {
		return fmt.Errorf("is no name of the kernel's; write one like performance")
	}
	*to = s
	return nil
}
