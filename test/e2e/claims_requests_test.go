//go:build e2e

package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// TestClaimRequests makes claims with unusual amounts, and claims for several pods. No claim gets CPUs of another one.
func TestClaimRequests(t *testing.T) {
	c := startClaims(t, "", reservedWithout)
	c.installDriver(t)
	c.requests(t)
}

func (c *claimCluster) requests(t *testing.T) {
	for _, r := range []struct {
		name, cpus string
		options    []func(*resourcev1.DeviceClaim)
		want       int    // CPUs
		waits      string // message of a pod that does not start
	}{
		{name: "minus-one", cpus: "-1", want: 1},
		{name: "zero", cpus: "0", want: 1},
		{name: "one-and-a-half", cpus: "1500m", want: 2},
		{name: "no-amount", want: 1},
		{name: "three", cpus: "3", waits: "cannot allocate all claims"},
		{name: "two-to-the-63", cpus: "9223372036854775808", waits: "exceeds MaxInt64"},
		{name: "all", options: []func(*resourcev1.DeviceClaim){all}, want: 2},
	} {
		t.Run(r.name, func(t *testing.T) {
			c.claim(t, r.name, r.cpus, r.options...)
			pod := c.add(t, claimPod(r.name, r.name))
			if r.waits != "" {
				c.pends(t, r.name, r.waits)
			} else {
				c.running(t, "apps", r.name)
				if got := c.cpusOf(t, pod, "app"); got.Len() != r.want || !got.IsSubsetOf(cpuset.Of(2, 3, 6, 7)) {
					t.Errorf("the pod runs on %s; want %d CPUs of claims", got, r.want)
				}
			}
			c.end(t, r.name)
			c.free(t, "2-3,6-7")
		})
	}
	t.Run("admin access", c.adminAccess)
	t.Run("second pod", c.secondPod)
	t.Run("many requests", c.manyRequests)
}

// all requests all devices of the class.
func all(d *resourcev1.DeviceClaim) {
	d.Requests[0].Exactly.AllocationMode = resourcev1.DeviceAllocationModeAll
}

// adminAccess checks that a claim with admin access gets no CPUs, because the scheduler does not count it.
func (c *claimCluster) adminAccess(t *testing.T) {
	label := []byte(`{"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}`)
	if _, err := c.CoreV1().Namespaces().Patch(t.Context(), "apps", types.MergePatchType, label, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	c.claim(t, "admin", "2", func(d *resourcev1.DeviceClaim) { d.Requests[0].Exactly.AdminAccess = new(true) })
	c.claim(t, "user", "2", onNode(0))
	user := c.launch(t, claimPod("user", "user"))
	admin := c.launch(t, claimPod("admin", "admin"))
	c.moves(t, admin, "app", sharedByClaims.String())
	c.runsOn(t, user, "app", "2-3")
	c.end(t, "admin", "user")
	c.free(t, "2-3,6-7")
}

// secondPod checks that a second pod with the claim of another one does not start, and that the first one keeps its CPUs.
func (c *claimCluster) secondPod(t *testing.T) {
	c.claim(t, "only", "2", onNode(0))
	first := c.launch(t, claimPod("only", "only"))
	c.add(t, claimPod("second", "only"))
	c.reports(t, "second", "CPUs of a claim are for one pod")
	c.runsOn(t, first, "app", "2-3")
	if out, err := c.inside(t.Context(), claimPod("second"), "app", "true"); err == nil {
		t.Errorf("the second pod runs: %s", out)
	}
	c.end(t, "second", "only")
	c.free(t, "2-3,6-7")
}

// manyRequests checks a claim with 32 requests, the maximum of the API, of which four fit. It is refused or Pending as a whole, and a claim of four
// requests gets all CPUs.
func (c *claimCluster) manyRequests(t *testing.T) {
	many := func(n int) func(*resourcev1.DeviceClaim) {
		return func(d *resourcev1.DeviceClaim) {
			for i := 1; i < n; i++ {
				next := *d.Requests[0].DeepCopy()
				next.Name = fmt.Sprintf("%s%d", strings.Repeat("x", 50), i)
				d.Requests = append(d.Requests, next)
			}
		}
	}
	c.claim(t, "crowd", "1", many(32))
	c.add(t, claimPod("crowd", "crowd"))
	c.pends(t, "crowd", "cannot allocate all claims")
	c.end(t, "crowd")
	c.claim(t, "four", "1", many(4))
	pod := c.launch(t, claimPod("four", "four"))
	c.runsOn(t, pod, "app", "2-3,6-7")
	c.end(t, "four")
	c.free(t, "2-3,6-7")
}
