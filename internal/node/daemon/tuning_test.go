package daemon

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/hosttuning"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/managers"
	"github.com/cpupoold/cpupoold/internal/node/power"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/tune"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// threads are eight CPUs, of which N and N+4 are threads of one core.
func threadsOfCores() *topology.Topology {
	t := &topology.Topology{Possible: cpuset.Range(0, 7), Online: cpuset.Range(0, 7)}
	for i := range 4 {
		t.Cores = append(t.Cores, topology.Group{ID: i, CPUs: cpuset.Of(i, i+4)})
	}
	return t
}

// TestWish: whose CPUs handle no interrupts, and no threads of the kernel.
func TestWish(t *testing.T) {
	const crio = "irq-load-balancing.crio.io"
	hooks := managers.CRIO{Handlers: []managers.Handler{{Name: "high-performance", Allowed: []string{crio}}}}
	for name, tc := range map[string]struct {
		away        config.InterruptsAway
		threads     config.KernelThreads
		annotations map[string]string
		handler     string
		want        tune.Wish
		elsewhere   bool
	}{
		"nothing asked":         {away: config.AwayAnnotated},
		"asked":                 {away: config.AwayAnnotated, annotations: map[string]string{crio: "disable"}, want: tune.Wish{Quiet: cpuset.Of(1, 2, 5)}},
		"housekeeping":          {away: config.AwayAnnotated, annotations: map[string]string{crio + "/app": "housekeeping"}, want: tune.Wish{Quiet: cpuset.Of(2)}},
		"off":                   {away: config.AwayOff, annotations: map[string]string{crio: "disable"}},
		"nonsense":              {away: config.AwayAnnotated, annotations: map[string]string{crio: "yes"}},
		"all":                   {away: config.AwayExclusive, want: tune.Wish{Quiet: cpuset.Of(1, 2, 3, 5)}},
		"all but who asks not":  {away: config.AwayExclusive, annotations: map[string]string{crio: "enable"}, want: tune.Wish{Quiet: cpuset.Of(3)}},
		"all, and nonsense":     {away: config.AwayExclusive, annotations: map[string]string{crio: "disabled"}, want: tune.Wish{Quiet: cpuset.Of(1, 2, 3, 5)}},
		"CRI-O does it":         {away: config.AwayAnnotated, annotations: map[string]string{crio: "disable"}, handler: "high-performance", elsewhere: true},
		"CRI-O does it for one": {away: config.AwayExclusive, annotations: map[string]string{crio: "disable"}, handler: "high-performance", elsewhere: true, want: tune.Wish{Quiet: cpuset.Of(3)}},
		"threads":               {away: config.AwayOff, threads: config.KernelThreadsExclusive, want: tune.Wish{NoKernel: cpuset.Of(1, 2, 3, 5)}},
	} {
		t.Run(name, func(t *testing.T) {
			s := desired.Settings{Config: &config.Config{Interrupts: config.Interrupts{Away: tc.away}, KernelThreads: tc.threads}, Topology: threadsOfCores()}
			m := inventory.New(cgroup.DriverSystemd)
			m.PutPod(inventory.PodStatus{Pod: cri.Pod{ID: "sandbox", UID: "uid", Annotations: tc.annotations, RuntimeHandler: tc.handler}})
			m.PutContainer(inventory.ContainerStatus{Container: cri.Container{ID: "id", Name: "app", PodID: "sandbox"}})
			plan := pools.Plan{
				Pods:  []pools.PodPlan{{UID: "uid", Containers: []pools.Placement{{ID: "id", Name: "app", Exclusive: true, CPUs: cpuset.Of(1, 2, 5), State: pools.Running}}}},
				Units: []pools.UnitPlan{{Name: "du.service", Exclusive: true, CPUs: cpuset.Of(3)}},
			}
			w, elsewhere := s.Wish(plan, m, &desired.OtherManagers{Crio: hooks})
			if !w.Equal(tc.want) || (elsewhere["id"] != "") != tc.elsewhere {
				t.Errorf("wish %v, %v, elsewhere %v; want %v, %v", w.Quiet, w.NoKernel, elsewhere, tc.want.Quiet, tc.want.NoKernel)
			}
		})
	}
}

func TestHousekeepingIsTold(t *testing.T) {
	s := desired.Settings{Config: &config.Config{Interrupts: config.Interrupts{Away: config.AwayAnnotated}}, Topology: threadsOfCores()}
	for value, want := range map[string]string{"housekeeping": "1,5", "disable": "", "enable": ""} {
		if got := s.HousekeepingOf(map[string]string{"irq-load-balancing.crio.io": value}, "app", cpuset.Of(1, 2, 5)); got.String() != want {
			t.Errorf("%s: housekeeping CPUs %s; want %q", value, got, want)
		}
	}
}

// TestSettingsHaveTheirNames: telemetry knows the kinds and reasons of package tune.
func TestSettingsHaveTheirNames(t *testing.T) {
	kinds := []string{string(tune.DefaultAffinity), string(tune.IRQBalance), string(tune.IRQ), string(tune.RPS), string(tune.Workqueue), string(tune.KThread),
		string(power.KindGovernor), string(power.KindPreference), string(power.KindCState)}
	var reasons []string
	for _, w := range tune.Whys() {
		reasons = append(reasons, string(w))
	}
	gotKinds, gotReasons := telemetry.SettingNames()
	slices.Sort(kinds)
	slices.Sort(reasons)
	slices.Sort(gotKinds)
	slices.Sort(gotReasons)
	if d := cmp.Diff([][]string{kinds, reasons}, [][]string{gotKinds, gotReasons}); d != "" {
		t.Errorf("names (-tune +telemetry):\n%s", d)
	}
}

// TestLostDirectory: what cannot be opened is an error when somebody asks for it, also if
// it is not there, and keeps nobody from starting.
func TestLostDirectory(t *testing.T) {
	queues := tune.ReceiveQueues(hosttuning.Lost(errors.New("receive queues of the host: not there")), tune.Machine{Possible: cpuset.Range(0, 3)})
	if _, err := queues.Read(t.Context()); err == nil {
		t.Error("reading: no error")
	}
	if err := queues.Write(t.Context(), tune.Knob{Kind: tune.RPS, Name: "eth0/rx-0"}, "0"); err == nil {
		t.Error("writing: no error")
	}
}
