package dra

import (
	"errors"
	"fmt"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Parts returns the CPUs that the scheduler has allocated to a claim on a node: a part for each result
// of the driver. A claim for devices of other drivers alone has no parts. Results with admin access
// get no CPUs, because the scheduler does not count them.
func Parts(claim *resourcev1.ResourceClaim, node string) ([]pools.ClaimPart, error) {
	if claim.Status.Allocation == nil {
		return nil, errors.New("the claim is not allocated; the scheduler allocates it for a pod")
	}
	var parts []pools.ClaimPart
	for _, r := range claim.Status.Allocation.Devices.Results {
		if r.Driver != Driver || ptr.Deref(r.AdminAccess, false) {
			continue
		}
		if r.Pool != node {
			return nil, fmt.Errorf("request %s has device %s of pool %s; this node is pool %s", r.Request, r.Device, r.Pool, node)
		}
		cpus, has := r.ConsumedCapacity[Capacity]
		n := cpus.Value()
		if !has || n < 1 || n > cpuset.MaxCPUs || cpus.CmpInt64(n) != 0 {
			return nil, fmt.Errorf("request %s has %s of capacity %s of device %s; want a whole number of CPUs, 1 or more", r.Request, cpus.String(), Capacity, r.Device)
		}
		parts = append(parts, pools.ClaimPart{Request: r.Request, Device: r.Device, ShareID: string(ptr.Deref(r.ShareID, "")), CPUs: int(n)})
	}
	return parts, nil
}
