package desired_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/internal/node/managers"
	"github.com/cpupoold/cpupoold/internal/node/noise"
	"github.com/cpupoold/cpupoold/internal/node/tune"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// threadsOfCores returns a machine with eight CPUs, of which N and N+4 are threads of one core.
func threadsOfCores() *topology.Topology {
	t := &topology.Topology{Possible: cpuset.Range(0, 7), Online: cpuset.Range(0, 7)}
	for i := range 4 {
		t.Cores = append(t.Cores, topology.Group{ID: i, CPUs: cpuset.Of(i, i+4)})
	}
	return t
}

// TestHostSettings checks which CPUs handle no interrupts, and run no kernel threads.
func TestHostSettings(t *testing.T) {
	const crio = "irq-load-balancing.crio.io"
	others := desired.NewOtherManagers(managers.CRIO{Handlers: []managers.Handler{{Name: "high-performance", Allowed: []string{crio}}}})
	for name, tc := range map[string]struct {
		away        config.InterruptsAway
		threads     config.KernelThreads
		annotations map[string]string
		handler     string
		want        tune.Desired
		elsewhere   bool
	}{
		"no request":                {away: config.AwayAnnotated},
		"requested":                 {away: config.AwayAnnotated, annotations: map[string]string{crio: "disable"}, want: tune.Desired{Quiet: cpuset.Of(1, 2, 5)}},
		"housekeeping":              {away: config.AwayAnnotated, annotations: map[string]string{crio + "/app": "housekeeping"}, want: tune.Desired{Quiet: cpuset.Of(2)}},
		"off":                       {away: config.AwayOff, annotations: map[string]string{crio: "disable"}},
		"invalid value":             {away: config.AwayAnnotated, annotations: map[string]string{crio: "yes"}},
		"all":                       {away: config.AwayExclusive, want: tune.Desired{Quiet: cpuset.Of(1, 2, 3, 5)}},
		"all but one container":     {away: config.AwayExclusive, annotations: map[string]string{crio: "enable"}, want: tune.Desired{Quiet: cpuset.Of(3)}},
		"all, and an invalid value": {away: config.AwayExclusive, annotations: map[string]string{crio: "disabled"}, want: tune.Desired{Quiet: cpuset.Of(1, 2, 3, 5)}},
		"CRI-O does it":             {away: config.AwayAnnotated, annotations: map[string]string{crio: "disable"}, handler: "high-performance", elsewhere: true},
		"CRI-O does it for one":     {away: config.AwayExclusive, annotations: map[string]string{crio: "disable"}, handler: "high-performance", elsewhere: true, want: tune.Desired{Quiet: cpuset.Of(3)}},
		"threads":                   {away: config.AwayOff, threads: config.KernelThreadsExclusive, want: tune.Desired{NoKernel: cpuset.Of(1, 2, 3, 5)}},
	} {
		t.Run(name, func(t *testing.T) {
			s := desired.Settings{Config: &config.Config{Interrupts: config.Interrupts{Away: tc.away}, KernelThreads: tc.threads}, Topology: threadsOfCores()}
			m := inventory.New(cgroup.DriverSystemd)
			m.PutPod(lookup.PodStatus{Pod: cri.Pod{ID: "sandbox", UID: "uid", Annotations: tc.annotations, RuntimeHandler: tc.handler}})
			m.PutContainer(lookup.ContainerStatus{Container: cri.Container{ID: "id", Name: "app", PodID: "sandbox"}})
			owners := []desired.Owner{{ID: "id", Name: "app", CPUs: cpuset.Of(1, 2, 5)}, {Name: "du.service", Unit: true, CPUs: cpuset.Of(3)}}
			w, elsewhere := s.HostSettings(owners, m.Objects(), &others)
			if !w.Equal(tc.want) || (elsewhere["id"] != "") != tc.elsewhere {
				t.Errorf("host settings %v, %v, elsewhere %v; want %v, %v", w.Quiet, w.NoKernel, elsewhere, tc.want.Quiet, tc.want.NoKernel)
			}
		})
	}
}

// TestHousekeepingOf checks the CPUs that handle interrupts for a container.
func TestHousekeepingOf(t *testing.T) {
	s := desired.Settings{Config: &config.Config{Interrupts: config.Interrupts{Away: config.AwayAnnotated}}, Topology: threadsOfCores()}
	for value, want := range map[string]string{"housekeeping": "1,5", "disable": "", "enable": ""} {
		if got := s.HousekeepingOf(map[string]string{"irq-load-balancing.crio.io": value}, "app", cpuset.Of(1, 2, 5)); got.String() != want {
			t.Errorf("%s: housekeeping CPUs %s; want %q", value, got, want)
		}
	}
}

// TestBootArguments checks the kernel arguments: for all CPUs of a guaranteed pool, and for
// allocated CPUs only if they come from the shared pool.
func TestBootArguments(t *testing.T) {
	set := func(yaml string) *desired.Settings {
		var s desired.Settings
		if err := s.Change(parse(t, yaml), machine(8), nil); err != nil {
			t.Fatal(err)
		}
		return &s
	}
	fixed, carved, claims := set(nodefixture.PoolsYAML), set(nodefixture.CarvedYAML), set(nodefixture.ClaimsYAML)
	for _, c := range []struct {
		s     *desired.Settings
		boot  noise.BootFacts
		owned cpuset.Set
		want  []string
	}{
		{fixed, noise.BootFacts{}, cpuset.Of(4), []string{"nohz_full=4-7", "rcu_nocbs=4-7", "isolcpus=managed_irq,4-7"}},
		{fixed, noise.BootFacts{Unknown: true}, cpuset.Of(4), nil},
		{carved, noise.BootFacts{}, cpuset.Of(4), []string{"nohz_full=4", "rcu_nocbs=4", "isolcpus=managed_irq,4"}},
		{carved, noise.BootFacts{}, cpuset.Set{}, nil},
		{claims, noise.BootFacts{}, cpuset.Set{}, []string{"nohz_full=3-7", "rcu_nocbs=3-7", "isolcpus=managed_irq,3-7"}},
	} {
		if d := cmp.Diff(c.want, c.s.BootArguments(c.boot, c.owned), cmpopts.EquateEmpty()); d != "" {
			t.Errorf("from shared %t, unknown %t (-want +got):\n%s", c.s.Pools.FromShared, c.boot.Unknown, d)
		}
	}
}
