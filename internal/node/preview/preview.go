package preview

import (
	"cmp"
	"context"
	"log/slog"
	"slices"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/audit"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/hostslices"
	"github.com/cpupoold/cpupoold/internal/node/hosttuning"
	"github.com/cpupoold/cpupoold/internal/node/tune"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/internal/node/usablecpus"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/defrag"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// Preview holds the actions of a daemon that starts now.
type Preview struct {
	Plan     pools.Plan        `json:"plan"`
	Writes   []cgroup.Write    `json:"writes"`
	Deferred []cgroup.Deferred `json:"deferred,omitempty"`
	// Changes describes running containers whose CPUs change, in a bounded number of lines.
	Changes []string `json:"changes,omitempty"`
	// Host lists the units that contain host services, and whether they are confined.
	Host []hostslices.Verdict `json:"host,omitempty"`
	// Adapted lists differences from the configuration, which another machine has accepted.
	Adapted []string `json:"adapted,omitempty"`
	// Offline are the CPUs of pools that are offline.
	Offline cpuset.Set `json:"offline,omitzero"`
	// Unread lists the objects and cgroups that cannot be read and are not in the plan.
	Unread []string `json:"unread,omitempty"`
	// Owners lists the owners of exclusive CPUs. Ends are the cgroups whose partition ends.
	Owners []Owner       `json:"owners,omitempty"`
	Ends   []cgroup.Path `json:"partitionsToEnd,omitempty"`
	// BootArguments are the kernel arguments that exclusive CPUs need and the machine lacks.
	BootArguments []string `json:"bootArguments,omitempty"`
	// Tuning is nil without host settings outside of cgroups to set or restore.
	Tuning *Tuning `json:"tuning,omitempty"`
	// Ownership has the owner of each CPU.
	Ownership audit.Ownership `json:"-"`
}

// DryRun returns the actions of a daemon that starts now, or that a running one has left.
func DryRun(ctx context.Context, c *config.Config, t *topology.Topology, log *slog.Logger) (Preview, error) {
	h, closeHost, err := hostenv.Open(ctx, c, t)
	if err != nil {
		return Preview{}, err
	}
	defer closeHost()
	return OnHost(ctx, &h, c, t, true, log)
}

// OnHost is DryRun on an open host. With tuning it includes the settings of this machine outside of cgroups.
func OnHost(ctx context.Context, h *hostenv.Host, c *config.Config, t *topology.Topology, tuning bool, log *slog.Logger) (Preview, error) {
	s, err := newSurvey(ctx, h, c, t, log)
	if err != nil {
		return Preview{}, err
	}
	p := s.preview()
	if !tuning {
		return p, nil
	}
	problems, err := s.tune(ctx, &p)
	p.Plan.Problems = append(p.Plan.Problems, problems...)
	return p, err
}

// Owners returns the owner of each CPU by DryRun, and the unreadable objects.
func Owners(ctx context.Context, c *config.Config, t *topology.Topology, log *slog.Logger) (audit.Ownership, []string, error) {
	h, closeHost, err := hostenv.Open(ctx, c, t)
	if err != nil {
		return audit.Ownership{}, nil, err
	}
	defer closeHost()
	s, err := readCPUs(ctx, &h, c, t, log)
	if err != nil {
		return audit.Ownership{}, nil, err
	}
	return s.input.Settings.Ownership(s.Plan, s.input.Objects, s.input.Verdicts(s.Plan, s.want), s.Auxiliary), texts(s.unread), nil
}

// Exclusive returns the owners of exclusive CPUs by OnHost, and the unreadable objects.
func Exclusive(ctx context.Context, h *hostenv.Host, c *config.Config, t *topology.Topology, log *slog.Logger) (defrag.Input, []string, error) {
	s, err := readCPUs(ctx, h, c, t, log)
	if err != nil {
		return defrag.Input{}, nil, err
	}
	return s.input.Fragments(s.Plan), texts(s.unread), nil
}

// newSurvey reads the node with the journal on disk.
func newSurvey(ctx context.Context, h *hostenv.Host, c *config.Config, t *topology.Topology, log *slog.Logger) (*survey, error) {
	j, err := undo.File{Name: h.JournalFile, RunDir: h.RunDir}.Find()
	if err = cmp.Or(err, j.Damage); err != nil {
		log.Warn("journal is not used, or only in part", "error", err)
	}
	machine := usablecpus.CutOrLog(t, h.Cgroups, log)
	var set desired.Settings
	if err := set.Change(c, machine.Topology, j.Accepted); err != nil {
		return nil, err
	}
	s, err := read(ctx, h, set, j, rights(c, log))
	if err == nil {
		s.Plan.Problems = append(s.Plan.Problems, usablecpus.Problems(machine.Withheld, set.Offline())...)
	}
	return s, err
}

// preview returns the actions that lead from the survey's node to its plan.
func (s *survey) preview() Preview {
	settings := &s.input.Settings
	p := Preview{Plan: s.Plan, Host: s.input.Verdicts(s.Plan, s.want), Adapted: settings.Adapted, Offline: settings.Offline()}
	p.Ownership = settings.Ownership(s.Plan, s.input.Objects, p.Host, s.Auxiliary)
	p.Writes, p.Deferred = s.cgroups.Diff(s.want, nil, desired.DiffOptions(s.host, s.Plan))
	p.Changes = s.changes()
	unread := s.unread
	var err error
	if p.Owners, p.Ends, err = s.owners(); err != nil {
		unread = append(unread, err)
	}
	var owned cpuset.Set
	for _, o := range p.Owners {
		owned = owned.Union(o.CPUs)
	}
	p.BootArguments = settings.BootArguments(s.host.Boot, owned)
	p.Unread = texts(unread)
	return p
}

func texts(all []error) (lines []string) {
	for _, err := range all {
		lines = append(lines, err.Error())
	}
	slices.Sort(lines)
	return lines
}

// Tuning holds the changes of host settings outside of cgroups.
type Tuning struct {
	// Quiet are the CPUs without interrupts, NoKernel those without kernel threads.
	Quiet    cpuset.Set    `json:"quiet,omitzero"`
	NoKernel cpuset.Set    `json:"noKernelThreads,omitzero"`
	Changes  []tune.Change `json:"changes,omitempty"`
	Stuck    []tune.Stuck  `json:"stuck,omitempty"`
	// Elsewhere has the manager that moves a container's interrupts, by container.
	Elsewhere map[string]string `json:"elsewhere,omitempty"`
	Unread    string            `json:"unread,omitempty"`
}

// tune adds the settings outside of cgroups, and returns problems with power settings.
func (s *survey) tune(ctx context.Context, p *Preview) ([]pools.Problem, error) {
	settings, objects := &s.input.Settings, s.input.Objects
	r, host, err := hosttuning.Restoring(settings.Config, settings.TuneMachine(settings.Topology.Possible), settings.Ownable())
	if err != nil {
		return nil, err
	}
	w, elsewhere := settings.HostSettings(s.Owners, objects, &s.others)
	var problems []pools.Problem
	w.Values, problems = settings.PowerSettings(s.Owners, objects, &s.others, host.Machine())
	d, err := tune.Preview(ctx, r, w)
	t := &Tuning{Quiet: w.Quiet, NoKernel: w.NoKernel, Changes: d.Changes, Stuck: d.Stuck, Elsewhere: elsewhere}
	if err != nil {
		t.Unread = err.Error()
	}
	if !w.Empty() || len(d.Changes) > 0 || err != nil || len(elsewhere) > 0 {
		p.Tuning = t
	}
	return problems, nil
}
