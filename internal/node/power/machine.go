package power

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/cpupoold/cpupoold/internal/node/tune"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Machine holds the power management of a machine.
type Machine struct {
	// Policies contains the policies of cpufreq; empty without a driver, as in virtual machines.
	Policies []Policy
	// Asleep contains the policies whose CPUs are offline: the kernel refuses to read them.
	Asleep []int
	// Idle contains the idle states of each CPU; empty without a driver of cpuidle.
	Idle map[int][]State
}

// Policy is a policy of cpufreq: CPUs with a common frequency.
type Policy struct {
	// Number is the N of the directory policyN.
	Number int
	// CPUs includes offline CPUs.
	CPUs   cpuset.Set
	Driver string
	// Governor is the present governor, Governors contains the available ones.
	Governor  string
	Governors []string
	// Preference is the present energy preference, Preferences contains the available ones.
	// Both are empty if the driver does not support energy preferences.
	Preference  string
	Preferences []string
}

// State is an idle state of a CPU.
type State struct {
	Number int
	Name   string
	// Latency is the exit latency in microseconds.
	Latency  uint64
	Disabled bool
}

const (
	cpufreqDir = "devices/system/cpu/cpufreq"
	cpuDir     = "devices/system/cpu"
)

// Read reads sysfs. It ignores missing files. With an error, the result may be incomplete.
func Read(sys fs.FS) (Machine, error) {
	m := Machine{Idle: make(map[int][]State)}
	var errs []error
	for _, number := range numbered(sys, cpufreqDir, "policy") {
		p, err := readPolicy(tune.Dir{FS: sys}, number)
		switch {
		case errors.Is(err, fs.ErrNotExist): // removed since the directory was read
		case errors.Is(err, syscall.EBUSY): // drivers/cpufreq/cpufreq.c, show
			m.Asleep = append(m.Asleep, number)
		case err != nil:
			errs = append(errs, fmt.Errorf("cpufreq policy%d: %w", number, err))
		default:
			m.Policies = append(m.Policies, p)
		}
	}
	for _, cpu := range numbered(sys, cpuDir, "cpu") {
		states, err := readStates(tune.Dir{FS: sys}, cpu)
		if err != nil {
			errs = append(errs, fmt.Errorf("cpuidle of CPU %d: %w", cpu, err))
		}
		if len(states) > 0 {
			m.Idle[cpu] = states
		}
	}
	return m, errors.Join(errs...)
}

// numbered returns the sorted numbers of a directory's entries of the form PREFIXnumber.
func numbered(sys fs.FS, dir, prefix string) []int {
	entries, err := fs.ReadDir(sys, dir)
	if err != nil {
		return nil
	}
	var all []int
	for _, e := range entries {
		text, is := strings.CutPrefix(e.Name(), prefix)
		if n, err := strconv.ParseUint(text, 10, 16); is && err == nil && strconv.FormatUint(n, 10) == text {
			all = append(all, int(n))
		}
	}
	slices.Sort(all)
	return all
}

func readPolicy(sys tune.Dir, number int) (Policy, error) {
	p, dir := Policy{Number: number}, policyDir(number)
	text, err := sys.Read(dir + "/related_cpus")
	if err != nil {
		return p, err
	}
	if p.CPUs, err = cpuset.Parse(strings.Join(strings.Fields(text), ",")); err != nil {
		return p, fmt.Errorf("related_cpus: %w", err)
	}
	if p.Governor, err = sys.Read(dir + "/scaling_governor"); err != nil {
		return p, err
	}
	if text, err = sys.Read(dir + "/scaling_available_governors"); err != nil {
		return p, err
	}
	p.Governors = strings.Fields(text)
	p.Driver, _ = sys.Read(dir + "/scaling_driver") // optional
	if text, err = sys.Read(dir + "/energy_performance_available_preferences"); err == nil {
		p.Preferences = strings.Fields(text)
		p.Preference, err = sys.Read(dir + "/energy_performance_preference")
	}
	if errors.Is(err, fs.ErrNotExist) {
		p.Preferences, err = nil, nil
	}
	return p, err
}

func readStates(sys tune.Dir, cpu int) ([]State, error) {
	dir := path.Join(cpuDir, "cpu"+strconv.Itoa(cpu), "cpuidle")
	var all []State
	var errs []error
	for _, number := range numbered(sys, dir, "state") {
		s, err := readState(sys, stateDir(cpu, number))
		s.Number = number
		switch {
		case errors.Is(err, fs.ErrNotExist): // the CPU has gone offline
		case err != nil:
			errs = append(errs, fmt.Errorf("state%d: %w", number, err))
		default:
			all = append(all, s)
		}
	}
	return all, errors.Join(errs...)
}

func readState(sys tune.Dir, dir string) (State, error) {
	var s State
	latency, err := sys.Read(dir + "/latency")
	if err != nil {
		return s, err
	}
	if s.Latency, err = strconv.ParseUint(latency, 10, 32); err != nil {
		return s, fmt.Errorf("latency: %w", err)
	}
	disable, err := sys.Read(dir + "/disable")
	if err != nil {
		return s, err
	}
	n, err := strconv.ParseUint(disable, 10, 64)
	if err != nil {
		return s, fmt.Errorf("disable: %w", err)
	}
	s.Disabled = n != 0
	s.Name, err = sys.Read(dir + "/name")
	return s, err
}

func policyDir(number int) string { return cpufreqDir + "/policy" + strconv.Itoa(number) }

func stateDir(cpu, number int) string {
	return path.Join(cpuDir, "cpu"+strconv.Itoa(cpu), "cpuidle", "state"+strconv.Itoa(number))
}
