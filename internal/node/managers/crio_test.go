package managers

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/procroot"
)

func files(contents map[string]string) fstest.MapFS {
	root := make(fstest.MapFS)
	for name, text := range contents {
		root[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return root
}

// TestReadCRIO checks that drop-ins override the main file in the order of their names, for
// each table and key.
func TestReadCRIO(t *testing.T) {
	got := ReadCRIO(files(map[string]string{
		"etc/crio/crio.conf": `[crio.runtime]
default_runtime = "runc"
infra_ctr_cpuset = "0-1"
[crio.runtime.workloads.batch]
activation_annotation = "example.com/batch"
resources = { cpuset = "2-3" }
[crio.runtime.workloads.management]
activation_annotation = "target.workload.openshift.io/management"
`,
		"etc/crio/crio.conf.d/10-crio.conf": `[crio.runtime]
default_runtime = "crun"
[crio.runtime.runtimes.crun]
allowed_annotations = ["io.containers.trace-syscall"]
`,
		"etc/crio/crio.conf.d/99-tuning": `[crio.runtime]
shared_cpuset = "4"
[crio.runtime.runtimes.high-performance]
runtime_path = "/usr/bin/crun"
allowed_annotations = ["cpu-load-balancing.crio.io", "cpu-quota.crio.io"]
[crio.runtime.workloads.batch]
activation_annotation = "example.com/other"
`,
		"etc/crio/crio.conf.d/50-broken.conf": "[crio.runtime",
	}))
	want := CRIO{
		DefaultRuntime: "crun",
		InfraCPUSet:    Setting{"0-1", "/etc/crio/crio.conf"},
		Handlers: []Handler{
			{Name: "crun", Source: "/etc/crio/crio.conf.d/10-crio.conf", Allowed: []string{"io.containers.trace-syscall"}},
			{Name: "high-performance", Source: "/etc/crio/crio.conf.d/99-tuning", Allowed: []string{"cpu-load-balancing.crio.io", "cpu-quota.crio.io"}},
		},
		Workloads: []Workload{
			{Name: "batch", Source: "/etc/crio/crio.conf.d/99-tuning", Activation: "example.com/other"},
			{Name: "management", Source: "/etc/crio/crio.conf", Activation: "target.workload.openshift.io/management"},
		},
	}
	if len(got.Unreadable) != 1 || got.Unreadable[0].Name != "/etc/crio/crio.conf.d/50-broken.conf" || got.Unreadable[0].Err == nil {
		t.Errorf("unreadable: %v", got.Unreadable)
	}
	got.Unreadable = nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}

func TestReadCRIOTooLarge(t *testing.T) {
	got := ReadCRIO(files(map[string]string{"etc/crio/crio.conf": strings.Repeat("#", procroot.MaxFile+1)}))
	if len(got.Unreadable) != 1 {
		t.Errorf("unreadable: %v; want one entry", got.Unreadable)
	}
}

func TestPlacing(t *testing.T) {
	c := CRIO{
		DefaultRuntime: "crun",
		Workloads: []Workload{
			{Name: "management", Source: "file", Activation: "target.workload.openshift.io/management", Pins: true},
			{Name: "silent", Activation: "example.com/silent", Allowed: []string{"cpu-load-balancing.crio.io"}},
			{Name: "without-annotation", Pins: true},
		},
		Handlers: []Handler{
			{Name: "crun", Allowed: []string{"cpu-quota.crio.io", ""}},
			{Name: "high-performance", Allowed: []string{"cpu-load-balancing.crio.io", "cpu-shared.crio.io"}},
		},
	}
	const off = "cpu-load-balancing.crio.io"
	for name, tc := range map[string]struct {
		ctr  Container
		want Placing
	}{
		"nothing asked": {Container{Name: "app", Handler: "high-performance", WholeCPUs: true}, Placing{}},
		"workload": {
			Container{Name: "app", Annotations: map[string]string{"target.workload.openshift.io/management": "whatever"}},
			Placing{CRIOWorkloads, "CRI-O's workload management (file)", false},
		},
		"a workload without resources": {Container{Name: "app", Annotations: map[string]string{"example.com/silent": ""}}, Placing{}},
		"no annotation of an empty name": {
			Container{Name: "app", Annotations: map[string]string{"": ""}}, Placing{},
		},
		"load balancing": {
			Container{Name: "app", Handler: "high-performance", WholeCPUs: true, Annotations: map[string]string{off: "disable"}},
			Placing{CRIOHighPerformance, `CRI-O's high-performance hooks (runtime handler "high-performance", annotation cpu-load-balancing.crio.io)`, true},
		},
		"of a container": {
			Container{Name: "app", Handler: "high-performance", WholeCPUs: true, Annotations: map[string]string{off + "/app": "true"}},
			Placing{CRIOHighPerformance, `CRI-O's high-performance hooks (runtime handler "high-performance", annotation cpu-load-balancing.crio.io/app)`, true},
		},
		"of another container":   {Container{Name: "app", Handler: "high-performance", WholeCPUs: true, Annotations: map[string]string{off + "/sidecar": "disable"}}, Placing{}},
		"overrides its pod":      {Container{Name: "app", Handler: "high-performance", WholeCPUs: true, Annotations: map[string]string{off: "disable", off + "/app": "enable"}}, Placing{}},
		"not whole CPUs":         {Container{Name: "app", Handler: "high-performance", Annotations: map[string]string{off: "disable"}}, Placing{}},
		"not allowed":            {Container{Name: "app", Handler: "crun", WholeCPUs: true, Annotations: map[string]string{off: "disable"}}, Placing{}},
		"not allowed by default": {Container{Name: "app", WholeCPUs: true, Annotations: map[string]string{off: "disable"}}, Placing{}},
		"quota alone":            {Container{Name: "app", Handler: "high-performance", WholeCPUs: true, Annotations: map[string]string{"cpu-quota.crio.io": "disable"}}, Placing{}},
		"allowed by its workload": {
			Container{Name: "app", WholeCPUs: true, Annotations: map[string]string{off: "disable", "example.com/silent": ""}},
			Placing{CRIOHighPerformance, `CRI-O's high-performance hooks (runtime handler "crun", annotation cpu-load-balancing.crio.io)`, true},
		},
		"shared CPUs": {
			Container{Name: "app", Handler: "high-performance", WholeCPUs: true, Annotations: map[string]string{"cpu-shared.crio.io/app": "enable"}},
			Placing{CRIOHighPerformance, `CRI-O's high-performance hooks (runtime handler "high-performance", annotation cpu-shared.crio.io/app)`, true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, placed := c.Placing(tc.ctr)
			if diff := cmp.Diff(tc.want, got); diff != "" || placed != (tc.want != Placing{}) {
				t.Errorf("placed %t (-want +got):\n%s", placed, diff)
			}
		})
	}
}

// TestPlacingByBuiltInHandler checks that a container without a handler has the built-in
// handler of CRI-O if default_runtime is unset or empty.
func TestPlacingByBuiltInHandler(t *testing.T) {
	const allows = "allowed_annotations = [\"cpu-load-balancing.crio.io\"]\n"
	const asks = "cpu-load-balancing.crio.io"
	for toml, want := range map[string]string{
		"[crio.runtime.runtimes.crun]\n" + allows:                                             "crun",
		"[crio.runtime.runtimes.runc]\n" + allows:                                             "runc",
		"[crio.runtime]\ndefault_runtime = \"\"\n[crio.runtime.runtimes.crun]\n" + allows:     "crun",
		"[crio.runtime]\ndefault_runtime = \"runc\"\n[crio.runtime.runtimes.crun]\n" + allows: "",
		"[crio.runtime.runtimes.high-performance]\n" + allows:                                 "",
	} {
		c := ReadCRIO(files(map[string]string{"etc/crio/crio.conf.d/10-crio.conf": toml}))
		placing, placed := c.Placing(Container{Name: "app", WholeCPUs: true, Annotations: map[string]string{asks: "disable"}})
		if placed != (want != "") || placed && !strings.Contains(placing.By, `"`+want+`"`) {
			t.Errorf("placed %t by %q; want one by handler %q with\n%s", placed, placing.By, want, toml)
		}
	}
}

// FuzzCRIO checks that the parser accepts every file, and that a second copy of a file
// changes nothing.
func FuzzCRIO(f *testing.F) {
	f.Add("[crio.runtime.workloads.a]\nactivation_annotation = \"x\"\nresources = { cpuset = \"0\" }\n")
	f.Add("[crio.runtime.workloads.management]\nactivation_annotation = \"target.workload.openshift.io/management\"\nannotation_prefix = \"io.openshift.workload.management\"\nresources = { \"cpushares\" = \"\", \"cpuset\" = \"0-1,52-53\" }\n")
	f.Add("[crio.runtime.runtimes.high-performance]\nallowed_annotations = [\"cpu-load-balancing.crio.io\"]\n")
	f.Add("[crio]\nruntime = 3\n")
	f.Fuzz(func(t *testing.T, text string) {
		c := ReadCRIO(files(map[string]string{"etc/crio/crio.conf": text, "etc/crio/crio.conf.d/again": text}))
		once := ReadCRIO(files(map[string]string{"etc/crio/crio.conf.d/again": text}))
		if len(c.Unreadable) != 2*len(once.Unreadable) {
			t.Fatalf("unreadable: %v, then %v; want %d entries", once.Unreadable, c.Unreadable, 2*len(once.Unreadable))
		}
		c.Unreadable, once.Unreadable = nil, nil
		if diff := cmp.Diff(once, c); diff != "" {
			t.Errorf("the same file twice (-once +twice):\n%s", diff)
		}
		for _, w := range c.Workloads {
			placing, placed := c.Placing(Container{Name: "app", Annotations: map[string]string{w.Activation: ""}})
			if w.Pins && w.Activation != "" && (!placed || placing.Kind != CRIOWorkloads) {
				t.Errorf("workload %q does not placing its pods: %v", w.Name, placing)
			}
		}
	})
}

// TestPlaces checks which configurations let CRI-O place containers.
func TestPlaces(t *testing.T) {
	for toml, want := range map[string]bool{
		"": false,
		"[crio.runtime.runtimes.runc]\nallowed_annotations = [\"io.containers.trace-syscall\"]":                                      false,
		"[crio.runtime.runtimes.hp]\nallowed_annotations = [\"cpu-load-balancing.crio.io\"]":                                         true,
		"[crio.runtime.workloads.a]\nactivation_annotation = \"example.com/a\"":                                                      false,
		"[crio.runtime.workloads.a]\nactivation_annotation = \"example.com/a\"\nallowed_annotations = [\"cpu-shared.crio.io\"]":      true,
		"[crio.runtime.workloads.a]\nactivation_annotation = \"example.com/a\"\n[crio.runtime.workloads.a.resources]\ncpushares = 5": true,
	} {
		c := ReadCRIO(fstest.MapFS{"etc/crio/crio.conf": {Data: []byte(toml)}})
		if got := c.Places(); got != want || len(c.Unreadable) > 0 {
			t.Errorf("Places is %t with\n%s\nwant %t; unreadable are %v", got, toml, want, c.Unreadable)
		}
	}
}

func TestMovesInterrupts(t *testing.T) {
	c := CRIO{DefaultRuntime: "crun", Handlers: []Handler{
		{Name: "crun", Allowed: []string{"cpu-quota.crio.io"}},
		{Name: "high-performance", Allowed: []string{"irq-load-balancing.crio.io"}},
	}, Workloads: []Workload{{Name: "radio", Activation: "radio.example.org", Allowed: []string{"irq-load-balancing.crio.io"}}}}
	const irq = "irq-load-balancing.crio.io"
	for name, tc := range map[string]struct {
		ctr  Container
		want bool
	}{
		"allowed":           {Container{Name: "app", Handler: "high-performance", WholeCPUs: true, Annotations: map[string]string{irq: "disable"}}, true},
		"housekeeping":      {Container{Name: "app", Handler: "high-performance", WholeCPUs: true, Annotations: map[string]string{irq + "/app": "housekeeping"}}, true},
		"dropped by CRI-O":  {Container{Name: "app", WholeCPUs: true, Annotations: map[string]string{irq: "disable"}}, false},
		"a workload's":      {Container{Name: "app", WholeCPUs: true, Annotations: map[string]string{irq: "disable", "radio.example.org": ""}}, true},
		"not asked for":     {Container{Name: "app", Handler: "high-performance", WholeCPUs: true}, false},
		"asked not to":      {Container{Name: "app", Handler: "high-performance", WholeCPUs: true, Annotations: map[string]string{irq: "disable", irq + "/app": "enable"}}, false},
		"not whole CPUs":    {Container{Name: "app", Handler: "high-performance", Annotations: map[string]string{irq: "disable"}}, false},
		"another container": {Container{Name: "app", Handler: "high-performance", WholeCPUs: true, Annotations: map[string]string{irq + "/side": "disable"}}, false},
	} {
		if by, got := c.MovesInterrupts(tc.ctr); got != tc.want || got != (by != "") {
			t.Errorf("%s: %q, %t; want %t", name, by, got, tc.want)
		}
	}
}
