package power

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/cpupoold/cpupoold/internal/node/tune"
)

// Host reads and writes the knobs of a machine's power; it implements [tune.Source].
type Host struct {
	sys  tune.Dir
	last atomic.Pointer[Machine]
}

// NewHost returns the Host of a sysfs, and reads it once. Later reads return errors.
func NewHost(sys tune.Dir) *Host {
	s := &Host{sys: sys}
	m, _ := Read(sys.FS)
	s.last.Store(&m)
	return s
}

// Machine returns the last reading, which must not be changed. Any goroutine may call it.
func (s *Host) Machine() Machine { return *s.last.Load() }

// Kinds implements [tune.Source].
func (s *Host) Kinds() []tune.Kind { return []tune.Kind{KindGovernor, KindPreference, KindCState} }

// Read implements [tune.Source].
func (s *Host) Read(context.Context) ([]tune.Observed, error) {
	m, err := Read(s.sys.FS)
	s.last.Store(&m)
	var all []tune.Observed
	for _, p := range m.Policies {
		name, label := strconv.Itoa(p.Number), "CPUs "+p.CPUs.String()
		all = append(all, tune.Observed{Knob: tune.Knob{Kind: KindGovernor, Name: name}, ID: p.Driver, Value: p.Governor, Label: label})
		if len(p.Preferences) > 0 {
			all = append(all, tune.Observed{Knob: tune.Knob{Kind: KindPreference, Name: name}, ID: p.Driver, Value: p.Preference, Label: label})
		}
	}
	for _, number := range m.Asleep {
		for _, kind := range []tune.Kind{KindGovernor, KindPreference} {
			all = append(all, tune.Observed{Knob: tune.Knob{Kind: kind, Name: strconv.Itoa(number)}, Asleep: true})
		}
	}
	for cpu, states := range m.Idle {
		for _, st := range states {
			value := "0"
			if st.Disabled {
				value = "1"
			}
			all = append(all, tune.Observed{
				Knob: tune.Knob{Kind: KindCState, Name: fmt.Sprintf("%d/%d", cpu, st.Number)}, ID: st.Name, Value: value,
				Label: fmt.Sprintf("%s of CPU %d", st.Name, cpu),
			})
		}
	}
	return all, err
}

// Write implements [tune.Source].
func (s *Host) Write(_ context.Context, k tune.Knob, value string) error {
	file, err := fileOf(k)
	if err != nil {
		return err
	}
	return s.sys.WriteFile(file, value)
}

func fileOf(k tune.Knob) (string, error) {
	first, second, pair := strings.Cut(k.Name, "/")
	number, err := strconv.ParseUint(first, 10, 16)
	if err == nil && pair && k.Kind == KindCState {
		state, err := strconv.ParseUint(second, 10, 16)
		if err == nil {
			return stateDir(int(number), int(state)) + "/disable", nil
		}
	}
	switch {
	case err != nil || pair:
	case k.Kind == KindGovernor:
		return policyDir(int(number)) + "/scaling_governor", nil
	case k.Kind == KindPreference:
		return policyDir(int(number)) + "/energy_performance_preference", nil
	}
	return "", fmt.Errorf("%s is not a power setting", k)
}
