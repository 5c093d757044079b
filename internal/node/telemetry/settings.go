package telemetry

import (
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// HostSettings holds the state of host settings outside of cgroups, such as interrupts.
type HostSettings struct {
	// Quiet CPUs handle no device interrupts.
	Quiet cpuset.Set
	// Moved counts the settings with a value of the daemon, by kind.
	Moved map[string]int
	// Stuck counts the settings that do not have the desired value.
	Stuck map[StuckSetting]int
	// Writes count since the daemon's start.
	Writes map[SettingWrite]uint64
	// Pending counts changes that wait for mode: enforce, or for the record of originals.
	Pending int
}

// StuckSetting is a kind of setting that differs, with the reason.
type StuckSetting struct{ Kind, Reason string }

// SettingWrite is a kind of written setting with the result.
type SettingWrite struct {
	Kind   string
	Result Result
}

// SettingNames returns the kinds and reasons that always have a series. A test of
// package hosttuning compares them with package tune.
func SettingNames() (kinds, reasons []string) {
	return []string{"default-affinity", "irqbalance", "irq", "rps", "workqueue", "kthread", "governor", "epp", "cstate"},
		[]string{"immovable", "no-space", "busy", "no-cpu-left", "contested", "not-taken", "failed"}
}

func (e emitter) settings(s *HostSettings) {
	if s == nil {
		return
	}
	e.emit(quietCPUs, float64(s.Quiet.Len()))
	e.emit(settingsPending, float64(s.Pending))
	kinds, reasons := SettingNames()
	for kind := range s.Moved {
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	for _, kind := range kinds {
		e.emit(settingsMoved, float64(s.Moved[kind]), kind)
		for _, result := range []Result{OK, Failed} {
			e.emit(settingWrites, float64(s.Writes[SettingWrite{kind, result}]), kind, string(result))
		}
	}
	for _, reason := range reasons {
		e.emit(settingsStuck, float64(s.Stuck[StuckSetting{"irq", reason}]), "irq", reason)
	}
	for stuck, n := range s.Stuck {
		if stuck.Kind != "irq" {
			e.emit(settingsStuck, float64(n), stuck.Kind, stuck.Reason)
		}
	}
}
