package daemon

import (
	"context"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/restore"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestLimitOfAnAnnotation: the limit that the webhook has taken out of a pod is its
// quota, also without NRI, whoever writes to it; restore takes it away, with a journal
// and without.
func TestLimitOfAnAnnotation(t *testing.T) {
	for _, lost := range []bool{false, true} {
		n := driftNode(t)
		r := n.start()
		id := n.container(n.pod("m", "kube-system", "burstable", 0, limited("app", 409, 500)), "app", cri.Resources{Shares: 2})
		scope := n.runtime.Cgroup(id)
		n.has(scope, cgroup.FileMax, "50000")
		r.settled()
		n.foreign(id, cgroup.FileMax, "max 100000")
		n.has(scope, cgroup.FileMax, "50000")
		r.quiet()
		r.stop()
		h, j := n.host(), n.journal()
		if lost {
			j = n.lose(h)
		}
		if _, err := restore.HostRestore(&h, context.Background(), j); err != nil {
			t.Fatal(err)
		}
		n.has(scope, cgroup.FileMax, cgroup.ValueMax)
	}
}
