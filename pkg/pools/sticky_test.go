package pools_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// checkSticky compares one plan with the next one: a running container must keep the
// CPUs that it had and still requests.
func checkSticky(t *testing.T, before, after pools.Plan, pool cpuset.Set) {
	t.Helper()
	type place struct {
		cpus      cpuset.Set
		exclusive bool
		reason    pools.Reason
	}
	placed := make(map[string]place)
	for _, p := range before.Pods {
		for _, c := range p.Containers {
			if c.State != pools.Exited {
				placed[p.UID+"/"+c.ID] = place{c.CPUs, c.Exclusive, c.Reason}
			}
		}
	}
	for _, p := range after.Pods {
		for _, c := range p.Containers {
			b, ok := placed[p.UID+"/"+c.ID]
			lacks := c.Reason.Code == pools.CodeShort || c.Refused != nil && c.Refused.Code != pools.PodPoolEmpty
			if ok && b.exclusive && lacks && after.Shared.Len() > 1 && !b.cpus.Intersection(pool).IsSubsetOf(c.CPUs) {
				t.Errorf("CPUs of container %s of %s = %s, then %s of pool %s; want the requested ones kept", c.ID, p.UID, b.cpus, c.CPUs, pool)
			}
			if !ok || !b.exclusive || !c.Exclusive || c.State == pools.Exited {
				continue
			}
			kept := b.cpus.Intersection(pool)
			grown, shrunk := kept.IsSubsetOf(c.CPUs), c.CPUs.IsSubsetOf(kept)
			if !grown && !shrunk && after.Shared.Len() > 1 { // the last shared CPU is taken from an owner
				t.Errorf("container %s of %s moves from %s to %s in pool %s; want no move", c.ID, p.UID, b.cpus, c.CPUs, pool)
			}
			if b.reason == c.Reason && !grown && after.Shared.Len() > 1 {
				t.Errorf("CPUs of container %s of %s = %s, then %s; want none lost", c.ID, p.UID, b.cpus, c.CPUs)
			}
		}
	}
}

// checkAway checks that CPUs that were away did not go to others while their owner
// still lacks some.
func checkAway(t *testing.T, before, after pools.Plan) {
	t.Helper()
	lacks := make(map[pools.Key]bool)
	for _, p := range after.Problems {
		if p.Code == pools.CodeShort || p.Code == pools.CodeRefused {
			lacks[pools.Key{PodUID: p.PodUID, Container: p.Container + p.Unit}] = true
		}
	}
	for _, a := range before.Assignments {
		for _, other := range after.Assignments {
			if stolen := a.Away.Intersection(other.CPUs.Union(other.Away)); other.Key != a.Key && (a.PodUID == "" || other.PodUID != a.PodUID) && lacks[a.Key] && !stolen.IsEmpty() {
				t.Errorf("%v lacks CPUs, and %v has %s; want them back with their earlier owner", a.Key, other.Key, stolen)
			}
		}
	}
}
