package hosttuning

import (
	"context"
	"log/slog"
	"slices"

	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/power"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/tune"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Tuning derives host settings from plans, and writes them. A nil Tuning changes nothing.
type Tuning struct {
	tuner     *tune.Tuner
	power     *power.Host
	log       *slog.Logger
	elsewhere map[string]string // by container: the manager that moves its interrupts, as logged
	powerless []pools.Problem   // requests for power settings that the machine does not have
}

// New returns a Tuning that calls changed after changes. With observe, it writes nothing.
func New(s *desired.Settings, possible cpuset.Set, observe bool, log *slog.Logger, changed func()) (*Tuning, error) {
	r, host, err := Restoring(s.Config, s.TuneMachine(possible), cpuset.Set{})
	if err != nil {
		return nil, err
	}
	return &Tuning{tuner: tune.New(tune.Options{Sources: r.Sources, Undo: r.Undo, Observe: observe, Log: log, Changed: changed}), power: host, log: log}, nil
}

// Run reads and writes settings until ctx ends.
func (t *Tuning) Run(ctx context.Context) {
	if t != nil {
		t.tuner.Run(ctx)
	}
}

// Set passes the settings that the owners of a plan need.
func (t *Tuning) Set(s *desired.Settings, owners []desired.Owner, m *inventory.Objects, others *desired.OtherManagers, possible cpuset.Set) {
	if t == nil {
		return
	}
	w, elsewhere := s.HostSettings(owners, m, others)
	for id, by := range elsewhere {
		if t.elsewhere[id] == "" {
			t.log.Info("interrupts of a container are left to another manager; default_smp_affinity is its own", "container_id", id, "manager", by)
		}
	}
	t.elsewhere = elsewhere
	w.Values, t.powerless = s.PowerSettings(owners, m, others, t.power.Machine())
	t.tuner.Set(w, s.TuneMachine(possible), s.Ownable())
}

// Problems returns the problems with the host's settings.
func (t *Tuning) Problems() []pools.Problem {
	if t == nil {
		return nil
	}
	all := slices.Clone(t.powerless)
	for _, p := range t.tuner.View().Problems {
		all = append(all, pools.Problem{Reason: pools.Reason{Code: pools.Code(p.Code), Text: p.Text}})
	}
	return all
}

// View returns the host's settings for metrics, nil without a tuner.
func (t *Tuning) View() *telemetry.HostSettings {
	if t == nil {
		return nil
	}
	v := t.tuner.View()
	shown := &telemetry.HostSettings{
		Quiet: v.Desired.Quiet, Pending: len(v.Pending),
		Moved: make(map[string]int), Stuck: make(map[telemetry.StuckSetting]int), Writes: make(map[telemetry.SettingWrite]uint64),
	}
	for kind, n := range v.Moved {
		shown.Moved[string(kind)] = n
	}
	for _, s := range v.Stuck {
		shown.Stuck[telemetry.StuckSetting{Kind: string(s.Kind), Reason: string(s.Why)}]++
	}
	for c, n := range v.Writes {
		result := telemetry.OK
		if c.Failed {
			result = telemetry.Failed
		}
		shown.Writes[telemetry.SettingWrite{Kind: string(c.Kind), Result: result}] += n
	}
	return shown
}
