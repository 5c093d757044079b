package pools

import (
	"cmp"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Owner is an owner of exclusive CPUs, with the inputs of their choice.
type Owner struct {
	Key  Key
	Pod  string // namespace/name; empty for a systemd unit
	CPUs cpuset.Set
	// Options and Nodes are the fields of an [allocate.Request] for it.
	Options allocate.Options
	Nodes   cpuset.Set
	// Fixed is the reason why the owner must keep its CPUs, even for the same number of
	// others; empty if it may change.
	Fixed string
}

// Owners returns the owners in a plan that Build made of in. They are in
// the order of the plan's assignments.
func Owners(in Input, plan Plan) []Owner {
	pods := present(in.Pods)
	c := classifier{in: &in}
	owners := make([]Owner, 0, len(plan.Assignments))
	for _, a := range plan.Assignments {
		if a.CPUs.IsEmpty() {
			continue // all of them are offline
		}
		o := Owner{Key: a.Key, CPUs: a.CPUs, Options: in.Pools.Options}
		if a.Key.PodUID != "" {
			i, ok := slices.BinarySearchFunc(pods, a.Key.PodUID, func(p Pod, uid string) int { return cmp.Compare(p.UID, uid) })
			if !ok {
				continue // Build assigns no CPUs to pods that do not exist
			}
			if o.ofPod(&pods[i]); isDivided(plan.Pods, a.Key.PodUID) {
				o.Fixed = "its pod has pod-level resources, and the CPUs belong to the pod"
			}
			o.Options = *c.options(&pods[i])
		}
		owners = append(owners, o)
	}
	return owners
}

// ofPod sets the fields of an owner that depend on its pod.
func (o *Owner) ofPod(p *Pod) {
	o.Pod = p.Namespace + "/" + p.Name
	o.Fixed = "no container of this name exists; the CPUs are held for it"
	if o.Key.Container == "" {
		o.Fixed = "reserved for later containers of the pod"
		return
	}
	start := slices.IndexFunc(p.Containers, func(c Container) bool { return c.Kind == App && c.Name == o.Key.Container })
	if start < 0 {
		return
	}
	end := start + 1
	for end < len(p.Containers) && p.Containers[end].Name == o.Key.Container {
		end++
	}
	newest := &p.Containers[start+newestOf(p.Containers[start:end])]
	o.Nodes = newest.Nodes
	switch {
	case p.Unread:
		o.Fixed = "the status of its pod could not be read"
	case newest.State == Exited:
		o.Fixed = "has exited; its CPUs are held for its restart, and the runtime has recorded them"
	case newest.State == Created:
		o.Fixed = "is being started"
	case newest.Waiting:
		o.Fixed = "its NUMA nodes are not known yet"
	default:
		o.Fixed = ""
	}
}

// isDivided reports whether containers of a pod share exclusive CPUs of the pod.
func isDivided(plans []PodPlan, uid string) bool {
	i, found := slices.BinarySearchFunc(plans, uid, func(p PodPlan, uid string) int { return cmp.Compare(p.UID, uid) })
	return found && slices.ContainsFunc(plans[i].Containers, func(at Placement) bool { return at.InPodPool() })
}
