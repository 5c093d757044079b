package telemetry

import (
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// HostSettings are the host's settings outside of cgroups: interrupts, and threads of the
// kernel.
type HostSettings struct {
	// Quiet are the CPUs that handle no interrupts of devices, NoKernel those that threads
	// of the kernel are kept off.
	Quiet, NoKernel cpuset.Set
	// Moved counts the settings that hold a value of the daemon's, by kind.
	Moved map[string]int
	// Stuck counts those that are not as they should be.
	Stuck map[StuckSetting]int
	// Writes count since the daemon's start.
	Writes map[SettingWrite]uint64
	// Pending counts changes that are not made because the daemon only observes, or cannot
	// write down what was before.
	Pending int
}

// StuckSetting is a kind of setting, and why it is not as it should be.
type StuckSetting struct{ Kind, Reason string }

// SettingWrite is a kind of setting that was written.
type SettingWrite struct {
	Kind   string
	Result Result
}

// SettingNames are the kinds of settings and the reasons that there always are metrics for:
// those of package tune, to which a test of the daemon holds them.
func SettingNames() (kinds, reasons []string) {
	return []string{"default-affinity", "irqbalance", "irq", "rps", "workqueue", "kthread", "governor", "epp", "cstate"},
		[]string{"immovable", "no-space", "busy", "no-cpu-left", "contested", "not-taken", "failed"}
}

// settings emits what has become of the host's settings.
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
