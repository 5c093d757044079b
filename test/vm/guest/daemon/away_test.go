//go:build guest

package daemon_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/preview"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

// away is the minimum time in which TestAway runs no daemon. The default lets the kubelet write its QoS slices once, as it does each minute.
// -away=10m covers an operator who reacts late.
var away = flag.Duration("away", 75*time.Second, "how long the daemon is dead in TestAway")

// TestAway checks that containers keep their CPUs while no daemon runs, and that the next daemon places new ones. Pods of every kind
// start and stop in this time.
func TestAway(t *testing.T) {
	n := newNode(t)
	config := strings.Replace(pools, "guaranteed:\n", "guaranteed:\n  isolation: auto\n", 1)
	n.startDaemon(config)
	n.apply(manifest.EveryKind()...)
	wants := belongs()
	n.placed(wants...)
	wants = append(wants, n.ownCPUs(want{pod: "exclusive", container: "app"}))
	n.ownCPUs(want{pod: "mixed", container: "fast"})
	n.quiet()
	n.invariants()

	n.run("systemctl", "kill", "--signal=KILL", "cpupoold")
	n.run("systemctl", "stop", "cpupoold")
	gone := func(pod string) {
		if err := os.Remove(filepath.Join(manifests, pod+".yaml")); err != nil {
			t.Error(err)
		}
	}
	became := func(p manifest.Pod) { // there, wherever it runs
		n.apply(p)
		n.eventually("pod "+p.Name, func() error { _, err := n.find(p.Name, "app"); return err })
	}
	dead := time.Now()
	gone("mixed") // an owner ends, and with it a container of the shared pool
	wants = dropped(wants, "mixed")
	became(manifest.Pod{Name: "late", Namespace: "default", Containers: []manifest.Container{{Name: "app", CPU: "1", Memory: "20Mi", Limited: true}}})
	became(manifest.Pod{Name: "manager", Namespace: "kube-system", Annotations: manifest.Management(nil),
		Containers: []manifest.Container{{Name: "app", CPU: "100m", Memory: "20Mi"}}})
	rounds := 0
	for ; rounds < 3 || time.Since(dead) < *away; rounds++ {
		became(manifest.Pod{Name: fmt.Sprintf("come-%d", rounds), Namespace: "default", Containers: []manifest.Container{{Name: "app"}}})
		if rounds > 1 {
			gone(fmt.Sprintf("come-%d", rounds-2))
		}
		n.still(fmt.Sprintf("%s without a daemon", time.Since(dead).Round(time.Second)), wants...)
	}
	t.Logf("the daemon was away for %s, and %d pods came", time.Since(dead).Round(time.Second), rounds+2)

	before := n.plan()
	if len(before.Writes) == 0 {
		t.Error("writes of a daemon that starts now = none; want some")
	}
	n.startDaemon(config)
	for _, name := range []string{fmt.Sprintf("come-%d", rounds-1), fmt.Sprintf("come-%d", rounds-2)} {
		wants = append(wants, want{pod: name, container: "app", cpus: "2-3"})
	}
	wants = append(wants, want{pod: "manager", container: "app", cpus: "0-1"})
	n.placed(wants...)
	wants = append(wants, n.ownCPUs(want{pod: "late", container: "app"}))
	n.quiet()
	n.still("return of the daemon", wants...)
	n.invariants()
	n.counted(before, "late", "manager")
}

// dropped returns the wants without the entry of a pod.
func dropped(wants []want, pod string) []want {
	var kept []want
	for _, w := range wants {
		if w.pod != pod {
			kept = append(kept, w)
		}
	}
	return kept
}

// counted reports whether a plan has all of these pods.
func (n *node) counted(p preview.Preview, pods ...string) {
	n.Helper()
	for _, pod := range pods {
		found := false
		for _, planned := range p.Plan.Pods {
			found = found || planned.Name == pod || planned.Name == pod+"-node"
		}
		if !found {
			n.Errorf("pod %s is not in the plan; want it there", pod)
		}
	}
}
