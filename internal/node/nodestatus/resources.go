package nodestatus

import (
	"cmp"
	"maps"
	"slices"

	"github.com/cpupoold/cpupoold/internal/capacity"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
)

// Pod is a pod that runs here, with what its containers use.
type Pod struct {
	UID string
	// Resource is the resource of the pool for containers that do not run: Containers lacks them.
	Resource string
	// Rest is the resource of the pool for CPUs of the pod that no container requests, if any.
	Rest       string
	Containers []Container
}

// Container is a container that runs in a pool.
type Container struct {
	Name string
	// Resource is the resource of the pool; empty if the pool is not decided yet.
	Resource string
	// Milli is the CPU request in thousandths, from the CPU shares, for nodes without a record.
	Milli int64
	// Annotated is true if Milli is the request for Resource in the webhook's annotation.
	Annotated bool
	// Presumed is true if the container counts as requesting Resource without a record.
	Presumed bool
	// Claimed is true if the container runs on the CPUs of ResourceClaims. Then it uses no pool, and its CPU request
	// is not a part of a pool.
	Claimed bool
}

type usage struct{ used, counted int64 }

// Advertise returns the amounts of the pools' resources, sorted by name. A nil record means
// that the node has no record. A pod without an entry in the record counts as on a node
// without a record.
//
// The scheduler adds up the requests of pods. It misses pods that use the CPUs of a pool
// without a request for its resource. Examples are pods from before the webhook, and pods that
// have grown. Advertise subtracts their part:
//
//	used      by running pods: the CPU requests of the containers in the pool
//	counted   requests of running pods for the resource
//	unaccounted = max(0, used - counted), of each pod, summed up
//	advertised  = max(pool, max(used, counted) summed up) - unaccounted
//
// The amount is never below the requests of running pods. Otherwise a kubelet that restarts
// would end pods that no longer fit (OutOf...).
//
// The requests come from the kubelet's own record on this node (see [ReadRecord]). Pods cannot
// forge it, and the daemon needs no right to read the cluster's pods. A kubelet before 1.33
// has no record. Then annotations of the webhook describe management pods, and all other pods
// count as requesting their resource.
func Advertise(pools []capacity.Pool, pods []Pod, record Record) []telemetry.NodeResource {
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
	amounts := make([]telemetry.NodeResource, 0, len(pools))
	for _, p := range pools {
		missing := unaccounted[p.Resource]
		amounts = append(amounts, telemetry.NodeResource{Name: p.Resource, Milli: max(p.Milli, held[p.Resource]) - missing, Unaccounted: missing})
	}
	slices.SortFunc(amounts, func(a, b telemetry.NodeResource) int { return cmp.Compare(a.Name, b.Name) })
	return amounts
}

// usages adds up the containers of a pod by resource. pools holds the resources that count.
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
			if !c.Claimed {
				add(cmp.Or(c.Resource, p.Resource), c.Milli, counted)
			}
		}
		return sums
	}
	rest := asked.Milli
	for name, r := range asked.Containers {
		where, total := "", int64(0)
		for _, resource := range slices.Sorted(maps.Keys(r.Extended)) {
			milli := r.Extended[resource]
			if !pools[resource] {
				continue
			}
			add(resource, 0, milli)
			// The pool of its request, unless the plan has another. A container with the
			// guaranteed and the shared resource has whole CPUs, and its pod has the others.
			where, total = cmp.Or(where, resource), total+milli
		}
		used := r.Milli
		if used == 0 && asked.Milli == 0 {
			used = total // the webhook has moved the CPU request to the resource
		}
		if !p.isClaimed(name) {
			add(p.resourceOf(name, cmp.Or(where, p.Resource)), used, 0)
		}
		rest -= r.Milli
	}
	if rest > 0 && p.usesRest(asked) {
		add(p.restResource(asked, pools), rest, 0)
	}
	return sums
}

// usesRest reports whether containers run on CPUs of the pod that no container requests. With ResourceClaims,
// they can be the amount of the claims, unless the pod has them as exclusive CPUs or a container has no request.
func (p *Pod) usesRest(asked Asked) bool {
	if p.Rest != "" || !slices.ContainsFunc(p.Containers, func(c Container) bool { return c.Claimed }) {
		return true
	}
	for name, r := range asked.Containers {
		if r.Milli == 0 && !p.isClaimed(name) {
			return true
		}
	}
	return false
}

// restResource returns the resource of the pool for CPUs that no container requests. They are
// in the pool of the containers without a request. Before the runtime has one of these, they
// are in the pool that the webhook has counted them for.
func (p *Pod) restResource(asked Asked, pools map[string]bool) string {
	if p.Rest != "" {
		return p.Rest
	}
	counted := p.Resource
	for _, name := range slices.Sorted(maps.Keys(asked.Containers)) {
		r := asked.Containers[name]
		if r.Milli == 0 && !p.isClaimed(name) {
			if where := p.resourceOf(name, ""); where != "" {
				return where
			}
		}
		for _, resource := range slices.Sorted(maps.Keys(r.Extended)) {
			if pools[resource] && r.Extended[resource] > r.Milli {
				counted = resource
			}
		}
	}
	return counted
}

// resourceOf returns the resource of a container's pool, or fallback if the pool is unknown.
func (p *Pod) resourceOf(container, fallback string) string {
	for _, c := range p.Containers {
		if c.Name == container && c.Resource != "" {
			return c.Resource
		}
	}
	return fallback
}

// isClaimed reports whether a container runs on the CPUs of ResourceClaims.
func (p *Pod) isClaimed(container string) bool {
	return slices.ContainsFunc(p.Containers, func(c Container) bool { return c.Name == container && c.Claimed })
}
