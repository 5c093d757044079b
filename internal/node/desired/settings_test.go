package desired_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// machine returns a machine with n CPUs that are online.
func machine(n int) *topology.Topology {
	all := cpuset.Range(0, n-1)
	return &topology.Topology{Online: all, Present: all, Possible: all, Nodes: []topology.Node{{CPUs: all}}}
}

func parse(t *testing.T, yaml string) *config.Config {
	t.Helper()
	c, err := config.Parse([]byte(yaml), "config.yaml", config.Overrides{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestDigestOfPools checks that a configuration has the digest that earlier builds recorded. With
// another digest, an upgrade of the daemon loses the CPUs of cpus: auto, and the record that the
// pools fitted. New fields of the pools need omitzero.
func TestDigestOfPools(t *testing.T) {
	var got desired.Settings
	if _, err := got.Begin(parse(t, `
apiVersion: config.cpupoold.io/v1alpha1
kind: CPUPoolConfiguration
partitions: [{type: management, cpus: auto, namespaces: [kube-system]}]
guaranteed: {cpus: 4-7, overrides: [isolated-cpus], mixed: {cpus: "2", namespaces: [ran]}, options: {core-type: prefer-performance}}
units: {du.service: {cpus: 1}}
`), machine(8), nil); err != nil {
		t.Fatal(err)
	}
	if want := "977d62928eedac9e41471fed1acc220dfcb6e9dde31d50f0d52d53738baaadc2"; got.Now.Pools != want {
		t.Errorf("digest of the pools is %s, want %s", got.Now.Pools, want)
	}
}

// TestChange checks which configurations replace the settings, and that a refused one leaves
// them unchanged.
func TestChange(t *testing.T) {
	fits := parse(t, nodefixture.PoolsYAML)
	larger := parse(t, strings.Replace(nodefixture.PoolsYAML, "cpus: 4-7", "cpus: 4-11", 1))
	var elsewhere desired.Settings
	if err := elsewhere.Change(larger, machine(12), nil); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		config  *config.Config
		before  *undo.Accepted
		adapted bool
		fails   bool
	}{
		"fits":                          {config: fits},
		"does not fit":                  {config: larger, fails: true},
		"did fit another machine":       {config: larger, before: &elsewhere.Now, adapted: true},
		"another owner of the CPUs":     {config: parse(t, nodefixture.KubeletYAML), fails: true},
		"guaranteed.from: shared, fits": {config: parse(t, nodefixture.CarvedYAML)},
	} {
		t.Run(name, func(t *testing.T) {
			var s desired.Settings
			if err := s.Change(fits, machine(8), nil); err != nil {
				t.Fatal(err)
			}
			before := s
			err := s.Change(c.config, machine(8), c.before)
			if (err != nil) != c.fails {
				t.Errorf("error %v", err)
			}
			if err != nil && s.Config != before.Config || err == nil && s.Config != c.config {
				t.Error("another configuration is in force")
			}
			if (s.Fits == nil) != c.adapted || (len(s.Adapted) > 0) != c.adapted {
				t.Errorf("adapted: %v, fits: %v", s.Adapted, s.Fits)
			}
		})
	}
}

// TestFewerCPUs checks that pools in force are adapted when CPUs go offline.
func TestFewerCPUs(t *testing.T) {
	c := parse(t, nodefixture.PoolsYAML)
	var s desired.Settings
	if err := s.Change(c, machine(8), nil); err != nil {
		t.Fatal(err)
	}
	fewer := machine(8)
	fewer.Online, fewer.Present, fewer.Possible = cpuset.Range(0, 5), cpuset.Range(0, 5), cpuset.Range(0, 5)
	if err := s.Change(c, fewer, nil); err != nil || s.Pools.Guaranteed.String() != "4-5" || len(s.Adapted) == 0 {
		t.Errorf("%v, guaranteed CPUs %s, adapted %v", err, s.Pools.Guaranteed, s.Adapted)
	}
	if err := s.Change(c, &topology.Topology{}, nil); err == nil {
		t.Error("a machine without CPUs is accepted")
	}
}

// TestAutoStays checks that cpus: auto stays on its CPUs when CPUs go offline, the file is read
// again or the daemon starts again. It is chosen again when the pools of the configuration change.
func TestAutoStays(t *testing.T) {
	const yaml = "apiVersion: " + config.APIVersion + "\nkind: " + config.Kind + "\npartitions: [{type: management, cpus: auto}]\n"
	var s desired.Settings
	change := func(yaml string, offline cpuset.Set, want string) {
		t.Helper()
		m := machine(8)
		m.Online = m.Online.Difference(offline)
		if err := s.Change(parse(t, yaml), m, nil); err != nil {
			t.Fatal(err)
		}
		if got := s.Pools.Partitions[0].CPUs.String(); got != want {
			t.Errorf("without CPUs %s the pool has %s; want %s", offline, got, want)
		}
	}
	change(yaml, cpuset.Set{}, "0-1")
	change(yaml, cpuset.Of(1), "0")
	change(yaml, cpuset.Set{}, "0-1")
	change(yaml+"logLevel: debug\n", cpuset.Of(1), "0")
	recorded := s.Now
	s = desired.Settings{} // a restart
	m := machine(8)
	m.Online = m.Online.Difference(cpuset.Of(1))
	if _, err := s.Begin(parse(t, yaml), m, &recorded); err != nil || s.Pools.Partitions[0].CPUs.String() != "0" {
		t.Errorf("after a restart the pool has %v, %v; want CPU 0", s.Pools.Partitions, err)
	}
	if s.Fits == nil || !s.Fits.Equal(recorded) {
		t.Errorf("after a restart the record is %+v; want %+v", s.Fits, recorded)
	}
	change(yaml, cpuset.Set{}, "0-1")
	change(yaml+"guaranteed: {from: shared}\n", cpuset.Of(1), "0,2")
}

// TestBegin checks that a start adapts pools that do not fit the machine, and returns why.
func TestBegin(t *testing.T) {
	for name, c := range map[string]struct {
		cpus  int
		unfit bool
	}{"fits": {8, false}, "does not fit": {6, true}} {
		var s desired.Settings
		unfit, err := s.Begin(parse(t, nodefixture.PoolsYAML), machine(c.cpus), nil)
		if err != nil || (unfit != nil) != c.unfit || (len(s.Adapted) > 0) != c.unfit || s.Pools.Shared.String() != "2-3" {
			t.Errorf("%s: %v, %v, adapted %v", name, unfit, err, s.Adapted)
		}
	}
}

// TestRestartKeys checks the keys that need a restart.
func TestRestartKeys(t *testing.T) {
	was := parse(t, nodefixture.PoolsYAML)
	s := desired.Settings{Config: was}
	is := *was
	is.StateDir, is.Node.Name, is.ResyncPeriod = "/elsewhere", "other", 2*was.ResyncPeriod
	if d := cmp.Diff([]string{"node.name", "stateDir"}, s.RestartKeys(&is)); d != "" {
		t.Errorf("keys (-want +got):\n%s", d)
	}
	is = *was
	is.AnnotationDomain = "example.com"
	if d := cmp.Diff([]string{"annotationDomain"}, s.RestartKeys(&is)); d != "" {
		t.Errorf("keys (-want +got):\n%s", d)
	}
}
