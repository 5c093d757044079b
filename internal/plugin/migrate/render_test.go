package migrate_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/plugin/migrate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/poolspec"
)

// arbitrary returns a configuration that the formats can express: management pools, the
// pool of pause containers, CPUs for mixed containers, and lists for the guaranteed pool and for claims.
func arbitrary(r *rand.Rand) *config.Config {
	free := r.Perm(96)
	take := func() cpuset.Set {
		n := 1 + r.IntN(8)
		set := cpuset.Of(free[:n]...)
		free = free[n:]
		return set
	}
	c := config.Default()
	c.AnnotationDomain = []string{"workload.openshift.io", "workload.example.com"}[r.IntN(2)]
	for _, typ := range []string{"infra", "management", "x-1"}[:1+r.IntN(3)] {
		p := poolspec.Partition{Type: typ, All: r.IntN(4) == 0, Namespaces: []string{"a"}}
		if !p.All {
			p.CPUs = take()
			if r.IntN(3) == 0 {
				c.Pools.Infra = typ
			}
		}
		c.Pools.Partitions = append(c.Pools.Partitions, p)
	}
	if r.IntN(2) == 0 {
		c.Pools.Guaranteed.CPUs = take()
		if r.IntN(2) == 0 {
			c.Pools.Guaranteed.Mixed = pools.Mixed{CPUs: take(), Namespaces: []string{"a"}}
		}
		if r.IntN(2) == 0 {
			c.Pools.Guaranteed.Claims.CPUs = take()
		}
	}
	return &c
}

// TestRoundTrip checks that the expressible parts of a configuration survive rendering
// and importing, for each set of formats.
func TestRoundTrip(t *testing.T) {
	for seed := range uint64(100) {
		made := arbitrary(rand.New(rand.NewPCG(seed, 1)))
		for name, formats := range map[string][]migrate.Format{
			"one file each": {migrate.CRIO, migrate.Pinning, migrate.Kubelet, migrate.Kernel},
			"MachineConfig": {migrate.MachineConfig},
			"all":           migrate.Formats(),
		} {
			var files []migrate.File
			for _, format := range formats {
				file, err := migrate.Render(made, format, "worker", nil)
				if err != nil {
					nothing := made.Pools.Guaranteed.CPUs.IsEmpty() || format == migrate.Systemd
					if nothing && (format == migrate.Kernel || format == migrate.Systemd) {
						continue
					}
					t.Fatalf("seed %d: %v", seed, err)
				}
				files = append(files, migrate.File{Name: file.Name, Data: file.Data})
			}
			want := *made
			if !slices.Contains(formats, migrate.Kubelet) { // the kernel arguments do not separate CPUs for claims
				g := &want.Pools.Guaranteed
				g.CPUs, g.Claims.CPUs = g.CPUs.Union(g.Claims.CPUs), cpuset.Set{}
			}
			for _, reading := range []migrate.Reading{migrate.Implementation, migrate.Documents} {
				got, err := migrate.Import(files, migrate.Options{Reading: reading, Namespaces: []string{"a"}})
				if err != nil {
					t.Fatalf("seed %d, %s, %s: %v\n%s", seed, name, reading, err, show(files))
				}
				diff := cmp.Diff(&want, got.Config, cmpopts.IgnoreUnexported(config.Config{}), cmpopts.EquateEmpty(), cmp.Comparer(cpuset.Set.Equal))
				if diff != "" {
					t.Fatalf("seed %d, %s, %s (-want +got):\n%s\n%s", seed, name, reading, diff, show(files))
				}
				again(t, got.Config, formats, files)
			}
		}
	}
}

// again checks that the imported configuration renders to the same bytes.
func again(t *testing.T, c *config.Config, formats []migrate.Format, files []migrate.File) {
	t.Helper()
	var got []migrate.File
	for _, format := range formats {
		if file, err := migrate.Render(c, format, "worker", nil); err == nil {
			got = append(got, migrate.File{Name: file.Name, Data: file.Data})
		}
	}
	if show(files) != show(got) { // no diff of bytes: it takes long
		t.Fatalf("rendered again:\n%s\nwant:\n%s", show(got), show(files))
	}
}

func show(files []migrate.File) string {
	var b strings.Builder
	for _, f := range files {
		fmt.Fprintf(&b, "-- %s --\n%s", f.Name, f.Data)
	}
	return b.String()
}

func parse(t *testing.T, yaml string) *config.Config {
	t.Helper()
	c, err := config.Parse([]byte("apiVersion: "+config.APIVersion+"\nkind: "+config.Kind+"\n"+yaml), "c.yaml", config.Overrides{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestKernelArguments checks which CPUs stay with the host, which depends on the known
// facts.
func TestKernelArguments(t *testing.T) {
	const own = "nohz_full=8-15 rcu_nocbs=8-15 isolcpus=managed_irq,8-15"
	for name, tc := range map[string]struct {
		yaml    string
		machine bool
		want    string
	}{
		"management":    {"partitions: [{type: m, cpus: 0-1}]\nguaranteed: {cpus: 8-15}", true, own + " irqaffinity=0-1 systemd.cpu_affinity=0-1"},
		"the rest":      {"guaranteed: {cpus: 8-15}", true, own + " irqaffinity=0-7 systemd.cpu_affinity=0-7"},
		"shared":        {"shared: {cpus: 0-5}\nguaranteed: {cpus: 8-15}", false, own + " irqaffinity=0-5 systemd.cpu_affinity=0-5"},
		"not known":     {"guaranteed: {cpus: 8-15}", false, own},
		"no guaranteed": {"partitions: [{type: m, cpus: 0-1}]", false, "systemd.cpu_affinity=0-1"},
		"from shared":   {"partitions: [{type: m, cpus: 0-1}]\nguaranteed: {from: shared}", false, "systemd.cpu_affinity=0-1"},
		"from shared, machine": {"partitions: [{type: m, cpus: 0-1}]\nguaranteed: {from: shared}", true,
			"nohz_full=2-15 rcu_nocbs=2-15 isolcpus=managed_irq,2-15 irqaffinity=0-1 systemd.cpu_affinity=0-1"},
		"from shared, list": {"partitions: [{type: m, cpus: 0-1}]\nshared: {cpus: 8-15}\nguaranteed: {from: shared}", false, own + " irqaffinity=0-1 systemd.cpu_affinity=0-1"},
		"from shared, mixed": {"partitions: [{type: m, cpus: 0-1}]\nguaranteed: {from: shared, mixed: {cpus: 2-7, namespaces: [a]}}", true,
			own + " irqaffinity=0-1 systemd.cpu_affinity=0-1"},
		"claims":       {"partitions: [{type: m, cpus: 0-1}]\nguaranteed: {cpus: 8-11, claims: {cpus: 12-15}}", false, own + " irqaffinity=0-1 systemd.cpu_affinity=0-1"},
		"claims alone": {"guaranteed: {claims: {cpus: 8-15}}", true, own + " irqaffinity=0-7 systemd.cpu_affinity=0-7"},
		"claims, from shared": {"partitions: [{type: m, cpus: 0-1}]\nguaranteed: {from: shared, claims: {cpus: 2-3}}", true,
			"nohz_full=2-15 rcu_nocbs=2-15 isolcpus=managed_irq,2-15 irqaffinity=0-1 systemd.cpu_affinity=0-1"},
		"auto":           {"partitions: [{type: m, cpus: auto}]\nguaranteed: {cpus: 8-15}", true, own + " irqaffinity=0-1 systemd.cpu_affinity=0-1"},
		"auto, no CPUs":  {"partitions: [{type: m, cpus: auto}]\nguaranteed: {cpus: 8-15}", false, ""},
		"nothing to say": {"guaranteed: {from: shared}", true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := parse(t, tc.yaml)
			top := machine(16)
			if !tc.machine {
				top = nil
			}
			got, err := migrate.Render(c, migrate.Kernel, "worker", top)
			if (err != nil) != (tc.want == "") {
				t.Fatalf("error is %v", err)
			}
			if strings.TrimSpace(string(got.Data)) != tc.want {
				t.Errorf("got  %swant %s", got.Data, tc.want)
			}
		})
	}
}

// TestLost checks that exactly the keys that no format has are reported.
func TestLost(t *testing.T) {
	for yaml, want := range map[string]string{
		"partitions: [{type: m, cpus: 0-1, namespaces: [a]}]":      "partitions[].namespaces",
		"partitions: [{type: m, cpus: 0-1}, {type: n, cpus: all}]": "partitions[].cpus",
		"shared: {cpus: 0-1}":                                    "shared.cpus",
		"guaranteed: {from: shared}":                             "guaranteed.from",
		"guaranteed: {from: shared, floor: 2}":                   "guaranteed.floor guaranteed.from",
		"guaranteed: {from: shared, floor: 10%}":                 "guaranteed.floor guaranteed.from",
		"guaranteed: {cpus: 2-3}":                                "irqaffinity",
		"partitions: [{type: m, cpus: all}]\ninfraContainers: m": "infraContainers",
		"partitions: [{type: m, cpus: 0-1}]\nguaranteed: {options: {full-pcpus-only: true}}":  "guaranteed.options, guaranteed.overrides",
		"guaranteed: {options: {strict-cpu-reservation: false}}":                              "guaranteed.options, guaranteed.overrides",
		"guaranteed: {mixed: {cpus: shared, namespaces: [a]}}":                                "guaranteed.mixed.cpus guaranteed.mixed.namespaces",
		"partitions: [{type: m, cpus: 0-1}]\nguaranteed: {claims: {cpus: 2-3, idle: shared}}": "guaranteed.claims.idle",
		"units: {du.service: {pool: shared}}":                                                 "units",
		"partitions: [{type: management, cpus: 0}]\nhostSlices: {enabled: true}":              "hostSlices",
		"guaranteed: {isolation: auto}":                                                       "guaranteed.isolation, guaranteed.park",
		"power: [governor]":                                                                   "power, interrupts, kernelThreads",
		"partitions: [{type: m, cpus: 0-1}]\ninfraContainers: m\nlogLevel: debug":             "",
	} {
		var got []string
		for _, note := range migrate.Lost(parse(t, yaml), migrate.Formats(), nil) {
			got = append(got, note.Source)
		}
		got = slices.DeleteFunc(got, func(key string) bool { return key == "otherManagers.crioWorkloads" })
		if strings.Join(got, " ") != want {
			t.Errorf("lost of %q is %q; want %q", yaml, got, want)
		}
	}
	if notes := migrate.Lost(parse(t, "guaranteed: {cpus: 2-3}"), []migrate.Format{migrate.Kubelet}, nil); len(notes) != 1 || notes[0].Source != "guaranteed.cpus" {
		t.Errorf("lost keys of a guaranteed pool for the kubelet = %v; want guaranteed.cpus", notes)
	}
	if notes := migrate.Lost(parse(t, "guaranteed: {claims: {cpus: 2-3}}"), []migrate.Format{migrate.Kubelet}, nil); len(notes) != 1 || notes[0].Source != "guaranteed.claims" {
		t.Errorf("lost keys of claims for the kubelet = %v; want guaranteed.claims", notes)
	}
}

// TestRenderReserved checks the CPUs that the scheduler must not count: of management pools and of claims.
func TestRenderReserved(t *testing.T) {
	for yaml, want := range map[string]string{
		"":                                   "",
		"partitions: [{type: m, cpus: 0-1}]": "0-1",
		"guaranteed: {claims: {cpus: 4-7}}":  "4-7",
		"partitions: [{type: m, cpus: all}]\nguaranteed: {claims: {cpus: 4-7}}":               "4-7",
		"partitions: [{type: m, cpus: 0-1}]\nguaranteed: {from: shared, claims: {cpus: 4-7}}": "0-1,4-7",
	} {
		got, err := migrate.Render(parse(t, yaml), migrate.Kubelet, "worker", nil)
		if err != nil {
			t.Fatal(err)
		}
		_, reserved, _ := strings.Cut(string(got.Data), "\nreservedSystemCPUs: ")
		if reserved = strings.Trim(reserved, "\"\n"); reserved != want {
			t.Errorf("%q: the kubelet reserves %q; want %q", yaml, reserved, want)
		}
		if has := strings.Contains(string(got.Data), "DRANodeAllocatableResources"); has != strings.Contains(yaml, "claims") {
			t.Errorf("%q: a comment about the feature gate: %t", yaml, has)
		}
	}
}

// TestRenderExclusiveKubelet checks that the rendering does not disable the policy of a
// kubelet with exclusive CPUs.
func TestRenderExclusiveKubelet(t *testing.T) {
	c := parse(t, "partitions: [{type: m, cpus: 0-1}]\nguaranteed: {exclusive: kubelet}")
	if got, err := migrate.Render(c, migrate.Kubelet, "worker", nil); err == nil {
		t.Errorf("Render = %s; want an error", got.Data)
	}
}
