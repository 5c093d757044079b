package daemon

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// TestDepletion takes the CPUs of the shared pool offline, and back online.
func TestDepletion(t *testing.T) {
	n, a := newNode(t), new(api)
	n.YAML += "depletion: {action: taint, dryRun: false}\n"
	var later atomic.Int64
	r := n.joinedAt(a, func() time.Time { return time.Now().Add(time.Duration(later.Load())) })
	shows := func(what, status string, taints int) {
		t.Helper()
		n.Eventually(what, func() bool {
			s, tainted := a.shows(nodestatus.PressureType)
			return s == status && tainted == taints
		})
	}
	shows("enough CPUs", "False", 0)
	n.SetOnline(cpuset.Range(0, 2))
	r.view("one left", func(v *telemetry.View) bool {
		return v.Offline.Len() == 5 && v.Problems["SharedDepleted"] == 0
	})
	n.SetOnline(cpuset.Of(0, 1, 4, 5, 6, 7))
	r.view("the problem", func(v *telemetry.View) bool { return v.Problems["SharedDepleted"] == 1 })
	shows("none left", "True", 1)
	n.Eventually("metric", func() bool { return r.loop.publisher.Metrics().Node.Pressure })
	n.Eventually("the daemon's condition", func() bool { return a.told(`"reason":"SharedDepleted"`) })

	later.Store(int64(time.Minute)) // so that the message may change
	n.SetOnline(cpuset.Range(0, 7))
	r.view("the problem is over", func(v *telemetry.View) bool { return v.Problems["SharedDepleted"] == 0 })
	n.Eventually("the wait begins", func() bool { return a.told("must keep them for 1m0s") })
	if s, taints := a.shows(nodestatus.PressureType); s != "True" || taints != 1 {
		t.Errorf("before clearAfter: condition %s, %d taints", s, taints)
	}
	later.Store(int64(3 * time.Minute))
	r.loop.watchers.reload() // setting the clock wakes no one
	shows("cleared", "False", 0)
}

// TestDepletionByOwners checks that exclusive CPUs from the shared pool count.
func TestDepletionByOwners(t *testing.T) {
	n := newNode(t)
	n.YAML = nodefixture.CarvedYAML + "depletion: {floor: 5, action: evict}\n"
	r := n.start()
	r.view("first pass", func(v *telemetry.View) bool { return v.Ready && v.Problems["SharedDepleted"] == 0 })
	n.RunContainer(n.RunPod("du", "ran", "guaranteed", 2, nil), "cell", nodefixture.WholeCPUs(2))
	r.view("depleted", func(v *telemetry.View) bool { return v.Problems["SharedDepleted"] == 1 })
	s := r.shown()
	if d := *s.Depletion; d != (nodestatus.Depletion{CPUs: 4, Floor: 5, ClearAfter: time.Minute, Evict: true}) {
		t.Errorf("depletion %+v, want nothing of it shown", d)
	}
	if len(s.Problems) != 1 || s.Problems[0].Pod != "" || !strings.Contains(s.Problems[0].Text, "with depletion.dryRun: false the node would be tainted") {
		t.Errorf("problems %+v, want one of the Node that says what would be done", s.Problems)
	}
}
