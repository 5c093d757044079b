package workload_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/pkg/workload"
)

func TestAllowed(t *testing.T) {
	const now, old = "workload.openshift.io/allowed", "allowed.workload.openshift.io"
	for name, c := range map[string]struct {
		names              workload.Names
		namespace          map[string]string
		allowed, annotated bool
	}{
		"nothing said":      {namespace: map[string]string{"a": "management"}},
		"one":               {namespace: map[string]string{now: "management"}, allowed: true, annotated: true},
		"second":            {namespace: map[string]string{now: "infra,management"}, allowed: true, annotated: true},
		"blank":             {namespace: map[string]string{now: "infra, management"}, annotated: true},
		"another":           {namespace: map[string]string{now: "management2"}, annotated: true},
		"case":              {namespace: map[string]string{now: "Management"}, annotated: true},
		"empty":             {namespace: map[string]string{now: ""}, annotated: true},
		"old form":          {namespace: map[string]string{old: "management"}, allowed: true, annotated: true},
		"new form wins":     {namespace: map[string]string{now: "infra", old: "management"}, annotated: true},
		"other domain":      {names: workload.Names{Domain: "example.org"}, namespace: map[string]string{now: "management"}},
		"own domain":        {names: workload.Names{Domain: "example.org"}, namespace: map[string]string{"example.org/allowed": "management"}, allowed: true, annotated: true},
		"own domain, older": {names: workload.Names{Domain: "example.org"}, namespace: map[string]string{"allowed.example.org": "management"}, allowed: true, annotated: true},
	} {
		allowed, annotated := c.names.Allowed(c.namespace, "management")
		if allowed != c.allowed || annotated != c.annotated {
			t.Errorf("%s: Allowed = %t, %t, want %t, %t", name, allowed, annotated, c.allowed, c.annotated)
		}
	}
	if allowed, _ := (workload.Names{}).Allowed(map[string]string{now: ","}, ""); allowed {
		t.Error("Allowed without a name of a type = true; want false")
	}
}

func TestResourceNames(t *testing.T) {
	var names workload.Names
	own := workload.Names{Domain: "cpu.example.org", PoolDomain: "example.org"}
	for got, want := range map[string]string{
		names.CoresResource("management"): "management.workload.openshift.io/cores",
		own.CoresResource("infra"):        "infra.cpu.example.org/cores",
		names.SharedResource():            "openshift.io/shared-cpus",
		own.SharedResource():              "example.org/shared-cpus",
		names.GuaranteedResource():        "openshift.io/guaranteed-cpus",
		own.GuaranteedResource():          "example.org/guaranteed-cpus",
		names.AllowedKey():                "workload.openshift.io/allowed",
		own.WarningKey():                  "cpu.example.org/warning",
	} {
		if got != want {
			t.Errorf("name %s, want %s", got, want)
		}
	}
	for resource, want := range map[string]string{
		"management.workload.openshift.io/cores": "management",
		"a.b.workload.openshift.io/cores":        "a.b",
		"workload.openshift.io/cores":            "",
		"xworkload.openshift.io/cores":           "",
		"management.workload.openshift.io/other": "",
		"cpu":                                    "",
	} {
		if typ, ok := names.CoresType(resource); typ != want && ok || ok != (want != "") {
			t.Errorf("CoresType(%q) = %q, %t, want %q", resource, typ, ok, want)
		}
	}
}

func TestClaims(t *testing.T) {
	const own = "cpu.example.org"
	for _, c := range []struct {
		domain, key string
		want        bool
	}{
		{"", "target.workload.openshift.io/management", true},
		{"", "target.workload.openshift.io/", true},
		{"", "resources.workload.openshift.io/app", true},
		{"", "io.openshift.workload.management.cpushares/app", true},
		{"", "io.openshift.workload.management.cpuset/app", true},
		{"", "io.openshift.workload.management.cpuquota/app", true},
		{"", "io.openshift.workload.management.cpu/app", true},
		{"", "io.openshift.workload.a.b.cpuset/app", true},
		{"", "io.openshift.workload.management/app", true},
		{"", "io.openshift.workload.management/", true},
		{"", "io.openshift.workload./app", true},
		{"", "io.openshift.workload.management.cpuset", false}, // no container
		{"", "io.openshift.workload/app", false},
		{"", "io.openshift.workloads.management.cpuset/app", false},
		{"", "io.openshift.tuned/app", false},
		{"", "io.openshift.workload", false},
		{"", "workload.openshift.io/warning", false},
		{"", "workload.openshift.io/allowed", false},
		{"", "org.example.cpushares/app", false},
		{"", "resources.example.org/app", false},
		{"", "app", false},
		{"", "", false},
		{own, "org.example.cpu.management.cpuset/app", true},
		{own, "org.example.cpu.management/app", true},
		{own, "resources.cpu.example.org/app", true},
		{own, "org.example.cpus.management.cpuset/app", false},
		{own, "org.example.memory.cpuset/app", false},
		{own, "cpu.example.org.management.cpuset/app", false},
		{own, "io.openshift.workload.management.cpuset/app", false},
		{"one", "one.management.cpuset/app", true},
		{"one", "two.management.cpuset/app", false},
	} {
		if got := (workload.Names{Domain: c.domain}).Requests(c.key); got != c.want {
			t.Errorf("Requests(%q) in domain %q = %t, want %t", c.key, c.domain, got, c.want)
		}
	}
}

// TestClaimsAllocatesNothing checks the cost for each annotation of each pod.
func TestClaimsAllocatesNothing(t *testing.T) {
	names := workload.Names{Domain: "cpu.example.org"}
	claimed := 0
	allocated := testing.AllocsPerRun(100, func() {
		for _, key := range []string{"org.example.cpu.management.cpuset/app", "org.example.other/app", "app"} {
			if names.Requests(key) {
				claimed++
			}
		}
	})
	if allocated != 0 || claimed == 0 {
		t.Errorf("Claims allocates %v times, and is true %d times; want no allocation", allocated, claimed)
	}
}

func TestEncode(t *testing.T) {
	var names workload.Names
	for want, r := range map[string]workload.Resources{
		`{}`:                                {},
		`{"cpushares":2}`:                   {Shares: 2},
		`{"cpulimit":1}`:                    {LimitMilli: 1},
		`{"cpushares":262144,"cpulimit":7}`: {Shares: 262144, LimitMilli: 7},
	} {
		got := r.Encode()
		read, _, err := names.ContainerResources(map[string]string{names.ResourcesKey("c"): got}, "t", "c")
		if got != want || read != r || err != nil {
			t.Errorf("Encode(%+v) = %s, which reads as %+v, %v; want %s", r, got, read, err, want)
		}
	}
}
