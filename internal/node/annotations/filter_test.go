package annotations_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/annotations"
	"github.com/cpupoold/cpupoold/internal/node/managers"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// TestReads checks annotations that the daemon reads, and others with similar names.
func TestReads(t *testing.T) {
	for _, names := range []workload.Names{{}, {Domain: "cpu.example.org"}} {
		f, domain := annotations.New(names), strings.TrimSuffix(names.AllowedKey(), "/allowed")
		for key, want := range map[string]bool{
			names.TargetKey("management"):              true,
			names.ResourcesKey("app"):                  true,
			names.OldPrefix("management") + ".cpuset/": true,
			names.OldPrefix("management") + "/app":     true,
			"cpu-load-balancing." + domain + "/app":    true,
			"irq-load-balancing." + domain + "/app":    true,
			"cpu-shared." + domain + "/app":            true,
			"cpu-load-balancing.crio.io":               true,
			"cpu-load-balancing.crio.io/app":           true,
			"cpu-quota.crio.io/app":                    true,
			"irq-load-balancing.crio.io":               true,
			"cpu-shared.crio.io/app":                   true,
			"cpu-c-states.crio.io":                     true,
			"cpu-freq-governor.crio.io/app":            true,
			"cpupoold.io/numa":                         true,
			"kubernetes.io/config.source":              true,
			"kubernetes.io/config.hash":                true,

			"":                            false,
			"kubernetes.io/config.seen":   false,
			names.WarningKey():            false,
			"target.other.example.org/x":  false,
			"cpu-quota.crio.iox":          false,
			"cpu-load-balancing.crio.iox": false,
			"kubectl.kubernetes.io/last-applied-configuration": false,
			"nokia.k8s.io/cpus": false,
		} {
			if got := f.Reads(key); got != want {
				t.Errorf("domain %q: Reads(%q) = %v; want %v", names.Domain, key, got, want)
			}
		}
	}
}

// TestLearn checks that the activation annotations of CRI-O's workloads are read once they
// are known.
func TestLearn(t *testing.T) {
	f := annotations.New(workload.Names{})
	one := managers.CRIO{Workloads: []managers.Workload{{Name: "w", Activation: "example.org/w"}, {Name: "none"}}}
	for i, step := range []struct {
		crio managers.CRIO
		want bool
		read bool // all pods are read after it
		w, v bool
	}{
		{managers.CRIO{}, false, true, false, false},
		{one, true, false, true, false},
		{one, true, true, true, false},
		{one, false, true, true, false},
		{managers.CRIO{Workloads: []managers.Workload{{Name: "v", Activation: "example.org/v"}}}, true, true, true, true},
		{managers.CRIO{}, false, true, true, true}, // pods keep their annotations
	} {
		if got := f.Learn(step.crio); got != step.want {
			t.Errorf("step %d: Learn = %v; want %v", i, got, step.want)
		}
		if step.read {
			f.NoteReread()
		}
		if w, v := f.Reads("example.org/w"), f.Reads("example.org/v"); w != step.w || v != step.v || f.Reads("") {
			t.Errorf("step %d: reads w: %v, v: %v; want %v, %v", i, w, v, step.w, step.v)
		}
	}
}

// FuzzReads checks that a dropped annotation changes no decision. The packages read the same
// values from all annotations of a pod and from the kept ones.
func FuzzReads(f *testing.F) {
	for _, key := range []string{"target.workload.openshift.io/management", "resources.workload.openshift.io/app", "io.openshift.workload.management.cpushares/app",
		"cpu-quota.crio.io", "cpupoold.io/numa", "kubernetes.io/config.source", "cpu-shared.crio.io/app", "cpu-energy-preference.workload.openshift.io/app", "note"} {
		for _, value := range []string{"{}", "disable", "enable", "file", ""} {
			f.Add("", key, value, "app")
			f.Add("cpu.example.org", key, value, "app")
		}
	}
	f.Fuzz(func(t *testing.T, domain, key, value, container string) {
		names := workload.Names{Domain: domain}
		filter := annotations.New(names)
		all := map[string]string{key: value}
		kept := maps.Clone(all)
		maps.DeleteFunc(kept, func(key, _ string) bool { return !filter.Reads(key) })
		if diff := cmp.Diff(readings(names, all, container), readings(names, kept, container)); diff != "" {
			t.Errorf("annotation %q of container %q (-all +kept):\n%s", key, container, diff)
		}
	})
}

// readings returns the values that the daemon reads from annotations.
func readings(names workload.Names, a map[string]string, container string) (all []any) {
	add := func(v ...any) { all = append(all, v...) }
	text := func(err error) string {
		if err == nil {
			return ""
		}
		return err.Error()
	}
	typ, found, err := names.Target(a)
	add(typ, found, text(err))
	r, found, err := names.ContainerResources(a, typ, container)
	add(r, found, text(err))
	for _, bad := range names.CheckOldForm(a, typ) {
		add(text(bad))
	}
	for _, c := range names.AnnotatedContainers(a, "") {
		add(c)
	}
	asks, key, valid := names.Mixed(a, container)
	add(asks, key, valid, names.LoadBalancingOff(a, container), names.Power(a, container), pools.KeepsQuota(a, container))
	interrupts, found := names.Interrupts(a, container)
	add(interrupts, found)
	pod := &pools.Pod{UID: "0123456789abcdef0123456789abcdef", Annotations: a}
	var p pools.Pools
	add(pod.Static(), p.OptionsFor(pod))
	crio := managers.CRIO{Handlers: []managers.Handler{{Name: "h", Allowed: []string{"cpu-load-balancing.crio.io", "cpu-shared.crio.io", "irq-load-balancing.crio.io"}}}}
	ctr := managers.Container{Name: container, Annotations: a, Handler: "h", WholeCPUs: true}
	placing, placed := crio.Placing(ctr)
	by, moves := crio.MovesInterrupts(ctr)
	add(placing, placed, by, moves)
	return all
}
