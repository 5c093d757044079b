package daemon

import (
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// TestDueSinceThePassBegan checks that a short pause which ends during a pass is neither a
// fault nor the end of the work: the next pass handles it.
func TestDueSinceThePassBegan(t *testing.T) {
	n := newNode(t)
	l := n.bareLoop(n.Host())
	l.pass()
	const scope = cgroup.Path("kubepods.slice/kubepods-pod1.slice/a.scope")
	l.last.Began = l.now().Add(-time.Second) // the pass has taken a second
	w := cgroup.Write{Path: scope, Via: cgroup.CRI, Property: cgroup.CRICPUs, Value: "2-3"}
	l.backoffs.Succeed(w, l.last.Began)
	l.backoffs.Repeated(w, l.last.Began)
	var until time.Time
	l.backoffs.Next(func(at time.Time) { until = at }, l.last.Began)
	l.last.Deferred = []cgroup.Deferred{{Path: scope, Property: cgroup.CRICPUs, Reason: "its recorder refused in this pass"}}
	l.publish()
	if faults := n.Logged("not in the desired state"); len(faults) > 0 || l.publisher.IsReady() {
		t.Errorf("faults %v, ready %t; want none, and that there is something to do", faults, l.publisher.IsReady())
	}
	l.last.Began = until
	l.publish()
	if faults := n.Logged("not in the desired state"); len(faults) != 1 {
		t.Errorf("faults %v; want that of %s, which a pass after it has left", faults, scope)
	}
}
