package desired

import (
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Owner is a container or a unit with exclusive CPUs, which containers of its pod can share.
type Owner struct {
	Pod, Name, ID string
	Unit          bool
	CPUs          cpuset.Set
}

// Owners returns the owners of a plan that can run now, in its order.
func Owners(plan pools.Plan) []Owner {
	var all []Owner
	for pod, c := range plan.Containers() {
		if (c.Exclusive || c.InPodPool()) && c.State != pools.Exited {
			all = append(all, Owner{Pod: pod.Namespace + "/" + pod.Name, Name: c.Name, ID: c.ID, CPUs: c.CPUs})
		}
	}
	for _, u := range plan.Units {
		if u.Exclusive {
			all = append(all, Owner{Name: u.Name, Unit: true, CPUs: u.CPUs})
		}
	}
	return all
}

// OwnedBy returns the exclusive CPUs of a plan, with idle siblings.
func OwnedBy(p pools.Plan) cpuset.Set {
	owned := p.Idle
	for _, a := range p.Assignments {
		owned = owned.Union(a.CPUs)
	}
	return owned
}

// Assigned returns the CPUs of an owner, with its offline CPUs.
func Assigned(all []pools.Assignment, key pools.Key) cpuset.Set {
	for _, a := range all {
		if a.Key == key {
			return a.CPUs.Union(a.Away)
		}
	}
	return cpuset.Set{}
}
