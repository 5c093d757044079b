package daemon

import (
	"context"
	"testing"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/restore"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
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
		id := n.RunContainer(n.RunPod("m", "kube-system", "burstable", 0, nodefixture.LimitedManagement("app", 409, 500)), "app", cri.Resources{Shares: 2})
		scope := n.Runtime.Cgroup(id)
		n.AwaitFile(scope, cgroup.FileMax, "50000")
		r.settled()
		n.WriteFile(id, cgroup.FileMax, "max 100000")
		n.AwaitFile(scope, cgroup.FileMax, "50000")
		r.quiet()
		r.stop()
		h, j := n.Host(), n.Journal()
		if lost {
			j = n.lose(h)
		}
		if _, err := restore.OnHost(context.Background(), &h, j, config.IsolationCPUSet, false); err != nil {
			t.Fatal(err)
		}
		n.AwaitFile(scope, cgroup.FileMax, cgroup.ValueMax)
	}
}
