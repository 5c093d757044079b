package pools

import (
	"fmt"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// # Foreign containers
//
// Another manager of CPUs on the node (a workload of CRI-O, another plugin of NRI)
// places some containers. Two managers that place the same container overwrite each
// other's cpuset. So the plan describes where such a container is, and changes nothing.
// No owner gets a CPU of such a container, and no pool contains its exclusive CPUs.
// Owners that had some of them before keep them; problems report such overlaps.

// Foreign is another manager that places a container, with the CPUs of the container.
type Foreign struct {
	Manager string // name of the manager for people: a phrase without a verb
	// CPUs are the CPUs that the manager has set for the container; empty if it has no
	// cpuset, and runs on all CPUs of its pod.
	CPUs  cpuset.Set
	Runs  cpuset.Set // for a container without a cpuset, the CPUs that it runs on, if known
	Alone bool       // container uses them exclusively
}

// isForeign reports whether another manager places all containers of a pod's spec, or its
// pause container. Then the requests of the pod have no effect here.
func isForeign(p *Pod) bool {
	n := 0
	for i := range p.Containers {
		switch ctr := &p.Containers[i]; {
		case ctr.Kind == Infra && ctr.Foreign != nil:
			return true
		case ctr.Kind == App:
			if n++; ctr.Foreign == nil {
				return false
			}
		}
	}
	return n > 0
}

func (p *Pod) hasForeign() bool {
	return slices.ContainsFunc(p.Containers, func(ctr Container) bool { return ctr.Foreign != nil })
}

// foreign overrides the verdicts of containers that another manager places. A pause
// container without one is as any other.
func (c *classifier) foreign(p *Pod, verdicts []verdict) {
	for i := range p.Containers {
		ctr := &p.Containers[i]
		switch {
		case ctr.Foreign != nil:
			verdicts[i] = verdict{pool: Other, reason: Reason{CodeOtherManager, "placed by " + ctr.Foreign.Manager + "; cpupoold does not change it"}}
		case verdicts[i].pool == "":
			verdicts[i] = c.pause()
		}
	}
}

// foreignCPUs returns the CPUs on which other managers have put containers, and the part
// that such containers use exclusively.
func foreignCPUs(pods []Pod) (all, alone cpuset.Set) {
	for i := range pods {
		for j := range pods[i].Containers {
			ctr := &pods[i].Containers[j]
			if ctr.Foreign == nil || ctr.State == Exited {
				continue
			}
			if all = all.Union(ctr.Foreign.CPUs); ctr.Foreign.Alone {
				alone = alone.Union(ctr.Foreign.CPUs)
			}
		}
	}
	return all, alone
}

// keptWith returns the CPUs of foreign containers that owners had before.
func keptWith(pods []Pod, previous []Assignment) cpuset.Set {
	all, _ := foreignCPUs(pods)
	var owned cpuset.Set
	for _, a := range previous {
		if a.CPUs.Overlaps(all) && !turnedForeign(pods, a.Key) {
			owned = owned.Union(a.CPUs)
		}
	}
	return owned.Intersection(all)
}

// stillHeld are the CPUs that the same owner has in both.
func stillHeld(before, after []Assignment) cpuset.Set {
	had := make(map[Key]cpuset.Set, len(before))
	for _, a := range before {
		had[a.Key] = had[a.Key].Union(a.CPUs)
	}
	var still cpuset.Set
	for _, a := range after {
		still = still.Union(a.CPUs.Intersection(had[a.Key]))
	}
	return still
}

// theirs returns the CPUs of foreign containers without CPUs that owners keep, and the
// part that leaves all pools. A pool keeps CPUs without which it would be empty.
func theirs(in *Input, pods []Pod, kept cpuset.Set) (all, alone cpuset.Set) {
	all, alone = foreignCPUs(pods)
	if in.Pools.Kubelet { // also CPUs of containers that do not exist yet or no longer exist
		for _, a := range in.Held {
			all, alone = all.Union(a.CPUs), alone.Union(a.CPUs)
		}
	}
	return all.Difference(kept), in.Pools.spared(alone.Difference(kept))
}

// spared returns the CPUs of lost without the CPUs of pools that would be empty without them.
func (p *Pools) spared(lost cpuset.Set) cpuset.Set {
	var needed cpuset.Set
	needs := func(pool cpuset.Set) {
		if pool.IsSubsetOf(lost) {
			needed = needed.Union(pool)
		}
	}
	needs(p.Shared)
	for _, part := range p.Partitions {
		needs(part.CPUs)
	}
	return lost.Difference(needed)
}

// turnedForeign reports whether an owner is only a foreign container now. Then its
// CPUs belong to the other manager.
func turnedForeign(pods []Pod, key Key) bool {
	for i := range pods {
		if pods[i].UID == key.PodUID {
			ours := func(ctr Container) bool { return ctr.Foreign == nil && ctr.Name == key.Container }
			theirs := func(ctr Container) bool { return ctr.Foreign != nil && ctr.Name == key.Container }
			return slices.ContainsFunc(pods[i].Containers, theirs) && !slices.ContainsFunc(pods[i].Containers, ours)
		}
	}
	return false
}

// without returns the pools without CPUs of others. No owner gets a CPU of all, and no pool contains a
// CPU of alone.
func (p Pools) without(all, alone cpuset.Set) Pools {
	if all.IsEmpty() {
		return p
	}
	p.Guaranteed, p.Shared = p.Guaranteed.Difference(all), p.Shared.Difference(alone)
	p.Claims.CPUs = p.Claims.CPUs.Difference(all)
	p.Mixed.CPUs = p.Mixed.CPUs.Difference(alone)
	p.Partitions = slices.Clone(p.Partitions)
	for i := range p.Partitions {
		p.Partitions[i].CPUs = p.Partitions[i].CPUs.Difference(alone)
	}
	return p
}

// overlaps reports foreign containers on the CPUs of owners, and foreign containers that
// exclusively use CPUs of a pool.
func overlaps(pods []Pod, plan *Plan) []Problem {
	var all []Problem
	for i := range pods {
		p := &pods[i]
		if !p.hasForeign() {
			continue
		}
		var owned cpuset.Set
		for _, a := range plan.Assignments {
			owned = owned.Union(a.CPUs)
		}
		for j := range p.Containers {
			ctr := &p.Containers[j]
			if ctr.Foreign == nil || ctr.State == Exited {
				continue
			}
			text := ""
			if both := ctr.Foreign.CPUs.Intersection(owned); !both.IsEmpty() {
				text = fmt.Sprintf("runs on %s, exclusive CPUs of owners, because %s has put it there", named(both), ctr.Foreign.Manager)
			} else if both = ctr.Foreign.Runs.Intersection(owned); !both.IsEmpty() {
				text = fmt.Sprintf("runs on %s, exclusive CPUs of owners, because %s gives it no cpuset", named(both), ctr.Foreign.Manager)
			} else if both = ctr.Foreign.CPUs.Difference(plan.TheirsAlone); ctr.Foreign.Alone && both.Overlaps(plan.Shared) {
				text = fmt.Sprintf("has %s exclusively from %s, and a pool would be empty without them", named(both), ctr.Foreign.Manager)
			} else {
				continue
			}
			all = append(all, p.problem(ctr.Name, Reason{CodeOtherOverlap, text + "; configure the two for different CPUs"}))
		}
	}
	return all
}

// # The kubelet as manager
//
// With Pools.Kubelet the kubelet (CPU manager policy static) writes the CPUs of every
// container, and does not know partitions. All containers are foreign then, except in managed
// pods: this is the only code that decides the manager of a container.

// leaveToKubelet makes the containers of all pods foreign, except in the pods of
// partitions. Pods is a copy of the input: present has made it.
func leaveToKubelet(in *Input, pods []Pod) []Pod {
	held := make(map[Key]cpuset.Set, len(in.Held))
	for _, a := range in.Held {
		held[a.Key] = a.CPUs
	}
	for i := range pods {
		p := &pods[i]
		quiet := classifier{in: in} // problems are reported when all pods are classified
		if _, managed := quiet.partition(p); managed && !p.Unread {
			continue
		}
		p.Containers = slices.Clone(p.Containers)
		for j := range p.Containers {
			ctr := &p.Containers[j]
			if ctr.Foreign != nil {
				continue // another manager places it
			}
			f := Foreign{Manager: "the kubelet"}
			own := held[Key{PodUID: p.UID, Container: ctr.Name}]
			if own.IsEmpty() {
				own = held[Key{PodUID: p.UID}]
			}
			switch {
			case ctr.Kind == Infra: // the kubelet gives it none
			case !own.IsEmpty():
				f.CPUs, f.Alone = own, true
			default:
				f.CPUs = in.Pools.Shared
			}
			ctr.Foreign = &f
		}
	}
	return pods
}

// kubeletTook reports containers that got CPUs of partitions from the kubelet: its
// reservedSystemCPUs does not contain them. The partitions are the previous ones.
func kubeletTook(in *Input, pods []Pod, plan *Plan) []Problem {
	if !in.Pools.Kubelet {
		return nil
	}
	var all []Problem
	for _, a := range in.Held {
		for _, part := range in.Pools.Partitions {
			taken := part.CPUs.Intersection(a.CPUs)
			if taken.IsEmpty() {
				continue
			}
			instead := "the pool does without"
			if !taken.IsSubsetOf(plan.TheirsAlone) {
				instead = "the pool has no others and keeps them, too"
			}
			p := Problem{PodUID: a.PodUID, Container: a.Container, Reason: Reason{CodeKubeletTook, fmt.Sprintf(
				"the kubelet has given it %s of management pool %s; %s; have the kubelet reserve the pool (reservedSystemCPUs)", named(taken), part.Type, instead)}}
			if i := slices.IndexFunc(pods, func(p Pod) bool { return p.UID == a.PodUID }); i >= 0 {
				p.Pod = pods[i].Namespace + "/" + pods[i].Name
			}
			all = append(all, p)
		}
	}
	return all
}
