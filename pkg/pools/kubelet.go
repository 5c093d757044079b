package pools

import (
	"fmt"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

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
			own, pod := held[Key{p.UID, ctr.Name}], held[Key{PodUID: p.UID}]
			switch {
			case ctr.Kind == Infra: // the kubelet gives it none
			case !own.IsEmpty():
				f.CPUs, f.Alone = own, true
			case !pod.IsEmpty():
				f.CPUs, f.Alone = pod, true
			default:
				f.CPUs = in.Pools.Shared
			}
			ctr.Foreign = &f
		}
	}
	return pods
}

// kubeletHas returns the CPUs that the kubelet has allocated, including CPUs of containers
// that do not exist yet or no longer exist.
func (in *Input) kubeletHas() cpuset.Set {
	var all cpuset.Set
	if in.Pools.Kubelet {
		for _, a := range in.Held {
			all = all.Union(a.CPUs)
		}
	}
	return all
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
			p := Problem{PodUID: a.Key.PodUID, Container: a.Key.Container, Reason: Reason{CodeKubeletTook, fmt.Sprintf(
				"the kubelet has given it %s of management pool %s; %s; have the kubelet reserve the pool (reservedSystemCPUs)", named(taken), part.Type, instead)}}
			if i := slices.IndexFunc(pods, func(p Pod) bool { return p.UID == a.Key.PodUID }); i >= 0 {
				p.Pod = pods[i].Namespace + "/" + pods[i].Name
			}
			all = append(all, p)
		}
	}
	return all
}
