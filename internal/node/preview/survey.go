package preview

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/auxiliary"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/formula"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
	"github.com/cpupoold/cpupoold/internal/node/numahints"
	"github.com/cpupoold/cpupoold/internal/node/quiet"
	"github.com/cpupoold/cpupoold/internal/node/recovery"
	"github.com/cpupoold/cpupoold/internal/node/statickubelet"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// survey is one reading of the node, and the decision of a daemon that starts with it.
type survey struct {
	host   *hostenv.Host
	input  desired.Input
	others desired.OtherManagers
	desired.Decision
	want    []cgroup.Target // without cgroups that are gone or unreadable
	cgroups *kernelstate.Cache
	unread  []error
}

// withoutRecords saves five D-Bus calls for each container, pause container and slice.
type withoutRecords struct{ hostenv.Units }

func (withoutRecords) Properties(context.Context, string) (cgroup.UnitState, error) {
	return cgroup.UnitState{}, cgroup.ErrGone
}

// readCPUs skips questions that decide only about writes: records of systemd, and the runtime's
// version for weights.
func readCPUs(ctx context.Context, h *hostenv.Host, c *config.Config, t *topology.Topology, log *slog.Logger) (*survey, error) {
	host, known := *h, *c
	if host.Units != nil {
		host.Units = withoutRecords{host.Units}
	}
	known.WeightFormula = config.WeightQuadratic
	return newSurvey(ctx, &host, &known, t, log)
}

func read(ctx context.Context, h *hostenv.Host, settings desired.Settings, j undo.Document, rights pools.NamespaceRights) (*survey, error) {
	m := inventory.New(h.Driver)
	objects := m.Objects()
	query := m.Query(settings.UnitNames(), true)
	query.UnitTimeout, query.InPods = hostenv.CallTimeout, true
	found := query.List(ctx, h)
	if found.Err != nil {
		return nil, found.Err
	}
	m.Merge(found)
	for _, u := range found.Units {
		m.PutUnit(u)
	}
	known := j.Journal()
	if !settings.Pools.Kubelet { // as the daemon does
		m.Recall(known.Facts().Others)
	}
	cgroups := kernelstate.New(h.Cgroups.ReadOnly().Reader(), slog.New(slog.DiscardHandler))
	previous := recovery.Assignments(objects, cgroups.State, known.Facts().Assignments, known.Facts().Claims, &settings)
	pods := objects.Input(time.Now())
	s := &survey{host: h, others: desired.NewOtherManagers(found.Crio), unread: found.Failed, cgroups: cgroups}
	s.others.Mark(objects, pods, &settings, cgroups.State)
	numahints.FetchOnce(ctx, h, objects, settings.Pools, pods, known.Facts().Claims, previous).Apply(pods)
	partitions, _ := settings.Partitions(h.Kernel)
	inPods := auxiliary.New(h.Driver)
	inPods.NoteAll(found.InPods)
	q := quiet.New(j.Resting)
	q.Begin(settings.Config.Quiet, time.Now())
	kubelet, err := statickubelet.Read(ctx, h, objects)
	for _, err := range []error{err, h.Boot.Err} {
		if err != nil {
			s.unread = append(s.unread, err)
		}
	}
	s.decide(ctx, desired.Input{
		Settings: settings, Objects: objects, Pods: pods, Previous: previous, Claims: known.Facts().Claims, Formula: formula.New(settings.Config.WeightFormula), Originals: known.Originals,
		Nodes: h.Nodes, Read: cgroups.State, Resting: q.MayRest(previous), System: s.others.SystemCPUs(objects, &settings), Kubelet: kubelet, Partitions: partitions, Namespaces: rights, Build: pools.Build, Auxiliary: inPods,
	})
	return s, nil
}

// decide makes the plan. The formula, observed on containers, changes weights and no CPUs.
func (s *survey) decide(ctx context.Context, in desired.Input) {
	gone, unreadable := s.cgroups.Refresh(in.Decide().Targets, in.Objects)
	if in.Formula.Observe(in.Objects, s.cgroups.Current, in.Originals); in.Formula.IsGuess() {
		in.Formula.Take(formula.Fetch(ctx))
	}
	s.input = in
	s.Decision = in.Decide()
	s.want = slices.DeleteFunc(s.Targets, func(t cgroup.Target) bool { return slices.Contains(gone, t.Path) || unreadable[t.Path] != nil })
	s.unread = slices.AppendSeq(s.unread, maps.Values(unreadable))
}

// rights returns the permissions of namespaces that the daemon has kept on disk.
func rights(c *config.Config, log *slog.Logger) pools.NamespaceRights {
	if c.NamespacePermission != config.PermissionAnnotation {
		return pools.NamespaceRights{}
	}
	known, err := nodestatus.ReadPermissions(nodestatus.PermissionsPath(c), c.Names())
	if err != nil {
		log.Warn("namespaces that are not listed are taken to allow nothing", "error", err)
	}
	return pools.NamespaceRights{Asked: true, Permissions: known, Current: err == nil}
}
