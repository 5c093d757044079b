package daemon

import (
	"testing"

	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestLimitOfAnAnnotation checks that the limit which the webhook has moved into an
// annotation is the container's quota, also without NRI and after an external write.
func TestLimitOfAnAnnotation(t *testing.T) {
	n := driftNode(t)
	r := n.start()
	id := n.RunContainer(n.RunPod("m", "kube-system", "burstable", 0, nodefixture.LimitedManagement("app", 409, 500)), "app", cri.Resources{Shares: 2})
	scope := n.Runtime.Cgroup(id)
	n.AwaitFile(scope, cgroup.FileMax, "50000")
	r.settled()
	n.WriteFile(id, cgroup.FileMax, "max 100000")
	n.AwaitFile(scope, cgroup.FileMax, "50000")
}
