package daemon

import (
	"maps"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// manifest returns the annotations of a static pod of type management, as the kubelet passes
// them to the runtime.
func manifest(uid string, more map[string]string) map[string]string {
	all := map[string]string{
		"target.workload.openshift.io/management": `{"effect":"PreferredDuringScheduling"}`,
		"kubernetes.io/config.source":             "file",
		"kubernetes.io/config.hash":               uid,
	}
	maps.Copy(all, more)
	return all
}

// TestStaticPods checks that the annotation of a manifest needs no listed namespace, and that a
// pod of the API cannot pass for a manifest.
func TestStaticPods(t *testing.T) {
	const digest, random = "0123456789abcdef0123456789abcdef", "01234567-89ab-4def-8123-456789abcdef"
	for name, nri := range map[string]bool{"CRI": false, "NRI": true} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			if nri {
				n = newNRINode(t)
			}
			before := n.RunContainer(n.RunPod(digest, "edge", "burstable", 0, manifest(digest, nil)), "app", cri.Resources{Shares: 307})
			r := n.start()
			if nri {
				r.connected()
			}
			n.AwaitCPUs(before, "0-1")
			later := "f" + digest[1:]
			after := n.RunContainer(n.RunPod(later, "edge", "burstable", 0, manifest(later, nil)), "app", cri.Resources{Shares: 307})
			forged := n.RunContainer(n.RunPod(random, "edge", "burstable", 0, manifest(random, nil)), "app", cri.Resources{Shares: 307})
			n.AwaitCPUs(after, "0-1")
			n.AwaitCPUs(forged, "2-3")

			n.YAML = strings.Replace(n.YAML, "shared:", "staticPods: ignore\nshared:", 1)
			r.loop.watchers.reload()
			n.AwaitCPUs(before, "2-3")
			n.AwaitCPUs(after, "2-3")
			r.quiet()
			n.CheckOccupants()
		})
	}
}

// TestStaticPodIsCounted checks that the resource of a pool is less by the requests of its
// static pods: the scheduler counts these as cpu, by their mirror pods. A manifest that
// requests the resource changes nothing.
func TestStaticPodIsCounted(t *testing.T) {
	const asks, not = "00000000000000000000000000000001", "00000000000000000000000000000002"
	n := newNode(t)
	n.RunContainer(n.RunPod(not, "kube-system", "burstable", 0, manifest(not, nil)), "app", cri.Resources{Shares: 307})
	n.RunContainer(n.RunPod(asks, "kube-system", "burstable", 0, manifest(asks, map[string]string{
		"resources.workload.openshift.io/app": `{"cpushares":409}`,
	})), "app", cri.Resources{Shares: 2})
	r := n.start()
	r.view("first pass", func(v *telemetry.View) bool { return v.Ready && len(v.Containers) == 2 })
	s := r.shown()
	request := func(milli int64, extended map[string]int64) nodestatus.Asked {
		return nodestatus.Asked{Containers: map[string]nodestatus.Request{"app": {Milli: milli, Extended: extended}}}
	}
	for name, record := range map[string]nodestatus.Record{
		"no record": nil,
		"a record":  {not: request(300, nil), asks: request(0, map[string]int64{managementCores: 400})},
	} {
		for _, a := range nodestatus.Advertise(s.Pools, s.Pods, record) {
			if a.Name == managementCores && (a.Milli != 7700 || a.Unaccounted != 300) {
				t.Errorf("%s: %+v; want 7700 of 8000, 300 unaccounted", name, a)
			}
		}
	}
}
