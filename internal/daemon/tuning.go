package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/managers"
	"github.com/cpupoold/cpupoold/internal/power"
	"github.com/cpupoold/cpupoold/internal/telemetry"
	"github.com/cpupoold/cpupoold/internal/tune"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// # Settings of the host outside of cgroups
//
// Where interrupts and threads of the kernel go, package tune keeps in a goroutine of its
// own. The owner tells it after each pass what its plan wishes, and shows what has become
// of it; neither waits for the other.

// Names of tune's files: the record survives a reboot, the mark does not.
const (
	undoName = "host.json"
	markName = "host.mark"
)

// undoOf is where a daemon records what settings of the host were.
func undoOf(c *config.Config, bootID string) tune.Undo {
	return tune.Undo{File: filepath.Join(c.StateDir, undoName), Mark: filepath.Join(c.RunDir, markName), BootID: bootID}
}

// tuningSources are the settings of this machine. Where the daemon is in a network
// namespace of its own, the interfaces are those of the host's.
func tuningSources(m tune.Machine) ([]tune.Source, *power.Host, error) {
	proc, err := tune.OpenDir(procRoot)
	if err != nil {
		return nil, nil, fmt.Errorf("open %s: %w", procRoot, err)
	}
	sys, err := tune.OpenDir(sysRoot)
	if err != nil {
		return nil, nil, fmt.Errorf("open %s: %w", sysRoot, err)
	}
	interfaces, etc := sys, os.DirFS("/etc")
	if foreign("net") {
		if interfaces, err = tune.OpenDir(procRoot + "/1/root/sys"); err != nil {
			interfaces = lost(errors.New("receive queues of the host: " + err.Error() + "; run the daemon in the host's network namespace (hostNetwork: true)"))
		}
	}
	if foreign("mnt") {
		etc = os.DirFS(procRoot + "/1/root/etc")
	}
	// Whatever the configuration says now, an earlier one may have had them changed.
	host := power.NewHost(sys)
	return []tune.Source{
		tune.DefaultAffinityOf(proc, m), tune.NewBalancer(proc, sys, etc, m), tune.IRQs(proc, sys), tune.ReceiveQueues(interfaces, m),
		tune.WorkqueueOf(sys, m), tune.KThreads(proc, sys, tune.SystemAffinity{}), host,
	}, host, nil
}

// lost is a directory that could not be opened. Whoever has no need of it does not notice.
func lost(err error) tune.Dir {
	return tune.Dir{FS: lostFS{err}, WriteFile: func(string, string) error { return err }}
}

type lostFS struct{ err error }

func (l lostFS) Open(string) (fs.File, error) { return nil, l.err }

// foreign says that the daemon is in another namespace of a kind than the host's first
// process, as far as it may know.
func foreign(kind string) bool {
	own, err := os.Readlink(procRoot + "/self/ns/" + kind)
	if err != nil {
		return false
	}
	first, err := os.Readlink(procRoot + "/1/ns/" + kind)
	return err == nil && first != own
}

// newTuner makes the one that keeps them.
func (l *loop) newTuner(log *slog.Logger) (*tune.Tuner, error) {
	bootID, err := readBootID()
	if err != nil {
		return nil, err
	}
	sources, host, err := tuningSources(l.settings.tuneMachine(l.possible))
	if err != nil {
		return nil, err
	}
	l.tuning.power = host
	return tune.New(tune.Options{
		Sources: sources, Undo: undoOf(l.settings.config, bootID), Observe: l.observes, Log: log,
		Changed: func() { l.box.post(tuned{}) },
	}), nil
}

// tuned says that the host's settings have been looked at: there is something to publish.
type tuned struct{}

func (tuned) apply(*loop) {}

// tuneMachine is the machine as package tune needs it.
func (s *settings) tuneMachine(possible cpuset.Set) tune.Machine {
	return tune.Machine{Possible: possible, Online: s.topology.Online}
}

// ownable are all CPUs that somebody could have for himself.
func (s *settings) ownable() cpuset.Set {
	if s.pools.FromShared {
		return s.pools.Guaranteed.Union(s.pools.Shared)
	}
	return s.pools.Guaranteed
}

// tuneHost says what the plan wishes of the host.
func (l *loop) tuneHost() {
	if l.tuner == nil {
		return
	}
	w, elsewhere := l.settings.wish(l.status.plan, l.model, &l.others)
	for id, by := range elsewhere {
		if l.tuning.elsewhere[id] == "" {
			l.log.Info("interrupts of a container are left to another manager; default_smp_affinity is its own", "container_id", id, "manager", by)
		}
	}
	l.tuning.elsewhere = elsewhere
	w.Values, l.tuning.powerless = l.settings.powerWish(l.status.plan, l.model, &l.others, l.tuning.power.Machine())
	l.tuner.Set(w, l.settings.tuneMachine(l.possible), l.settings.ownable())
}

// tuning is what the owner remembers of it.
type tuning struct {
	elsewhere map[string]string // containers whose interrupts another manager moves, and which; as the log has it
	// power is the machine's, powerless is what containers ask of it in vain.
	power     *power.Host
	powerless []pools.Problem
}

// wish is what a plan wishes of the host, and the containers whose interrupts another
// manager moves, with its name.
func (s *settings) wish(plan pools.Plan, m *model, o *others) (w tune.Wish, elsewhere map[string]string) {
	elsewhere = make(map[string]string)
	for _, owner := range soleOwners(plan) {
		if s.config.KernelThreads == config.KernelThreadsExclusive {
			w.NoKernel = w.NoKernel.Union(owner.cpus)
		}
		if owner.unit {
			if s.config.Interrupts.Away == config.AwayExclusive {
				w.Quiet = w.Quiet.Union(owner.cpus)
			}
			continue
		}
		e := m.containers[owner.id]
		if e == nil {
			continue
		}
		quiet, _ := s.quietOf(m.annotationsOfPod(e.container.PodID), owner.name, owner.cpus)
		if by, does := o.movesInterrupts(m, e); does && s.config.Interrupts.Away != config.AwayOff {
			elsewhere[owner.id] = by
			continue
		}
		w.Quiet = w.Quiet.Union(quiet)
	}
	return w, elsewhere
}

// movesInterrupts says whether CRI-O's hooks keep interrupts off a container's CPUs.
func (o *others) movesInterrupts(m *model, e *containerEntry) (by string, does bool) {
	pod := m.pods[e.container.PodID]
	if pod == nil {
		return "", false
	}
	return o.crio.MovesInterrupts(managers.Container{
		Name: e.container.Name, Annotations: pod.pod.Annotations, Handler: pod.pod.RuntimeHandler, WholeCPUs: true,
	})
}

// quietOf splits a container's own CPUs in those that handle no interrupts, and those that
// do although its others do not.
func (s *settings) quietOf(annotations map[string]string, container string, cpus cpuset.Set) (quiet, housekeeping cpuset.Set) {
	asked, found := s.names.Interrupts(annotations, container)
	switch s.config.Interrupts.Away {
	case config.AwayOff:
		return quiet, housekeeping
	case config.AwayExclusive:
		if !found {
			asked = workload.InterruptsAway
		}
	case config.AwayAnnotated:
	}
	switch asked {
	case workload.InterruptsAway:
		return cpus, housekeeping
	case workload.InterruptsHousekeeping:
		first := cpuset.Of(cpus.First())
		for _, core := range s.topology.Cores {
			if core.CPUs.Overlaps(first) {
				first = core.CPUs.Intersection(cpus)
			}
		}
		return cpus.Difference(first), first
	default:
		return quiet, housekeeping
	}
}

// housekeepingOf are the CPUs of a container that handle interrupts although its others do
// not.
func (s *settings) housekeepingOf(annotations map[string]string, container string, cpus cpuset.Set) cpuset.Set {
	if cpus.IsEmpty() {
		return cpuset.Set{}
	}
	_, housekeeping := s.quietOf(annotations, container, cpus)
	return housekeeping
}

// annotationsOf are those of the newest pod of a UID.
func (m *model) annotationsOf(uid string) map[string]string {
	for _, p := range m.pods {
		if p.uid == uid {
			return p.pod.Annotations
		}
	}
	return nil
}

// annotationsOfPod are those of a sandbox.
func (m *model) annotationsOfPod(id string) map[string]string {
	if p := m.pods[id]; p != nil {
		return p.pod.Annotations
	}
	return nil
}

// tuneProblems are those of the host's settings.
func (l *loop) tuneProblems() []pools.Problem {
	if l.tuner == nil {
		return nil
	}
	all := slices.Clone(l.tuning.powerless)
	for _, p := range l.tuner.View().Problems {
		all = append(all, pools.Problem{Reason: pools.Reason{Code: pools.Code(p.Code), Text: p.Text}})
	}
	return all
}

// tuneView is what is shown of the host's settings.
func (l *loop) tuneView() *telemetry.HostSettings {
	if l.tuner == nil {
		return nil
	}
	v := l.tuner.View()
	shown := &telemetry.HostSettings{
		Quiet: v.Wish.Quiet, NoKernel: v.Wish.NoKernel, Pending: len(v.Pending),
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
