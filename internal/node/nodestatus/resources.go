package nodestatus

import (
	"cmp"
	"slices"
)

// Pool is what of a pool the scheduler is to count by an extended resource.
type Pool struct {
	// Resource is its name, in full.
	Resource string
	// Milli is the pool's size in thousandths of a CPU.
	Milli int64
}

// Pod is a pod that runs here, with what its containers use.
type Pod struct {
	UID string
	// Resource is that of the pool in which the pod's containers are that are not
	// told of: not created yet, or ended.
	Resource   string
	Containers []Container
}

// Container is a container that runs in a pool.
type Container struct {
	Name string
	// Resource is that of the pool; empty where it is not settled where it runs.
	Resource string
	// Milli is its CPU request in thousandths as far as its shares tell: of use
	// where the kubelet's record is not there.
	Milli int64
	// Annotated says that the webhook's annotation tells what the container asks
	// for of Resource: Milli.
	Annotated bool
	// Presumed says that, without a record, it is taken to be counted.
	Presumed bool
}

// Amount is what there is of a resource.
type Amount struct {
	Resource string
	// Milli is to be advertised, Unaccounted is what pods use that do not ask for
	// it; in thousandths of a CPU.
	Milli, Unaccounted int64
}

// usage is how much of a resource a pod uses, and how much it asks for.
type usage struct{ used, counted int64 }

// Advertise returns the amounts of the pools' resources, sorted by name. A nil record
// means that the node has none; pods that are not in the record are treated the same.
//
// The scheduler adds up the requests of pods. It does not count pods that use a pool's
// CPUs without a request for its resource: pods from before the webhook, pods that the
// webhook did not change, and pods that have grown. Advertise subtracts their part:
//
//	used      by running pods: the CPU requests of the containers in the pool
//	counted   requests of running pods for the resource
//	unaccounted = max(0, used - counted), of each pod, summed up
//	advertised  = max(pool, max(used, counted) summed up) - unaccounted
//
// So the amount is never below the requests of running pods. Otherwise a kubelet that
// restarts would end pods that no longer fit (OutOf...).
//
// The requests come from the kubelet's own record on this node (see [ReadRecord]). Pods
// cannot forge it, and the daemon needs no right to read the cluster's pods. A kubelet
// before 1.33 has no record: then annotations of the webhook describe management pods,
// and all other pods are presumed to be counted.
func Advertise(pools []Pool, pods []Pod, record Record) []Amount {
	known := make(map[string]bool, len(pools))
	for _, p := range pools {
		known[p.Resource] = true
	}
	held, unaccounted := make(map[string]int64), make(map[string]int64)
	for i := range pods {
		for resource, u := range pods[i].usages(record, known) {
			held[resource] += max(u.used, u.counted)
			unaccounted[resource] += max(u.used-u.counted, 0)
		}
	}
	amounts := make([]Amount, 0, len(pools))
	for _, p := range pools {
		missing := unaccounted[p.Resource]
		amounts = append(amounts, Amount{p.Resource, max(p.Milli, held[p.Resource]) - missing, missing})
	}
	slices.SortFunc(amounts, func(a, b Amount) int { return cmp.Compare(a.Resource, b.Resource) })
	return amounts
}

// usages sums up a pod's containers by resource. Of what they ask for, the resources
// of pools count.
func (p *Pod) usages(record Record, pools map[string]bool) map[string]usage {
	sums := make(map[string]usage)
	add := func(resource string, used, counted int64) {
		u := sums[resource]
		sums[resource] = usage{u.used + used, u.counted + counted}
	}
	asked, known := record[p.UID]
	if !known {
		for _, c := range p.Containers {
			counted := c.Milli
			if !c.Annotated && !c.Presumed {
				counted = 0
			}
			add(cmp.Or(c.Resource, p.Resource), c.Milli, counted)
		}
		return sums
	}
	rest := asked.Milli
	for name, r := range asked.Containers {
		where, total := p.Resource, int64(0)
		for resource, milli := range r.Extended {
			if pools[resource] {
				add(resource, 0, milli)
				where, total = resource, total+milli // it runs where it is counted, if nobody knows better
			}
		}
		used := r.Milli
		if used == 0 {
			used = total // a management container's CPU request has become the resource
		}
		add(p.at(name, where), used, 0)
		rest -= r.Milli
	}
	add(p.Resource, max(rest, 0), 0)
	return sums
}

// at is the resource of the pool in which a container is, instead where that is not
// known.
func (p *Pod) at(container, instead string) string {
	for _, c := range p.Containers {
		if c.Name == container && c.Resource != "" {
			return c.Resource
		}
	}
	return instead
}
