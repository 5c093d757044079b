package explain

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// maxTries is the maximum number of plans for one kind of change.
const maxTries = 16

// changes returns changes that move a container to another pool, or change whether its CPUs are
// exclusive. Each change is tried alone in a plan for the node. at is the current placement, uid
// the UID of its pod.
func changes(in *pools.Input, uid string, at *pools.Placement) []inspect.Change {
	if at == nil || at.Kind == pools.Infra || at.State == pools.Exited || at.Pool == pools.Other || at.Unread {
		return nil
	}
	if len(at.Claims) > 0 {
		return nil // its requests have no effect
	}
	t := trial{in, uid, at.ID}
	var all []inspect.Change
	add := func(what string, got *pools.Placement) {
		if got != nil && (got.Pool != at.Pool || got.Type != at.Type || got.Exclusive != at.Exclusive) {
			all = append(all, inspect.Change{What: what, Then: placementText(got)})
		}
	}
	if at.Refused != nil {
		t.tryRefused(add)
		return all
	}
	if at.Exclusive {
		add("CPU requests below the limits (a Burstable pod)", t.placementWith(func(p *pools.Pod, _ *pools.Container, _ *pools.Input) { p.QoS = pools.QoSBurstable }))
		return all
	}
	t.tryExclusive(add)
	t.tryWorkloadTypes(add)
	return all
}

type trial struct {
	in      *pools.Input
	uid, id string
}

// placementWith returns the placement of the container in a plan with one change, or nil without a
// placement.
func (t *trial) placementWith(change func(*pools.Pod, *pools.Container, *pools.Input)) *pools.Placement {
	in := *t.in
	in.Pods = slices.Clone(in.Pods)
	for i := range in.Pods {
		p := &in.Pods[i]
		if p.UID != t.uid {
			continue
		}
		p.Containers, p.Annotations = slices.Clone(p.Containers), maps.Clone(p.Annotations)
		for j := range p.Containers {
			if p.Containers[j].ID == t.id {
				change(p, &p.Containers[j], &in)
			}
		}
	}
	plan := pools.Build(in)
	return placement(&plan, t.id)
}

func placement(plan *pools.Plan, id string) *pools.Placement {
	for _, at := range plan.Containers() {
		if at.ID == id {
			return at
		}
	}
	return nil
}

// requestWhole returns a change to a request of n whole CPUs in a Guaranteed pod, without
// resources for the whole pod.
func requestWhole(n int) func(*pools.Pod, *pools.Container, *pools.Input) {
	return func(p *pools.Pod, c *pools.Container, _ *pools.Input) {
		p.QoS, p.Resources = pools.QoSGuaranteed, pools.Resources{}
		c.Resources = pools.Resources{Shares: uint64(n) * sharesPerCPU}
	}
}

const sharesPerCPU = 1024

// tryRefused tries smaller requests and a larger guaranteed pool for a refused container.
func (t *trial) tryRefused(add func(string, *pools.Placement)) {
	want := 0
	t.placementWith(func(_ *pools.Pod, c *pools.Container, _ *pools.Input) { want, _ = c.Resources.WholeCPUs() })
	for n := want - 1; n > 0 && n >= want-maxTries; n-- {
		if got := t.placementWith(requestWhole(n)); got != nil && got.Exclusive {
			add(fmt.Sprintf("request %s instead of %d", layout.Count(n, "whole CPU"), want), got)
			break
		}
	}
	shared := t.in.Pools.Shared.Difference(t.in.Pools.Guaranteed)
	if t.in.Pools.FromShared || t.in.Pools.Kubelet {
		return
	}
	for n := 1; n < shared.Len() && n <= maxTries; n++ {
		more := shared.Take(n)
		got := t.placementWith(func(_ *pools.Pod, _ *pools.Container, in *pools.Input) {
			in.Pools.Guaranteed, in.Pools.Shared = in.Pools.Guaranteed.Union(more), in.Pools.Shared.Difference(more)
		})
		if got != nil && got.Exclusive {
			add(fmt.Sprintf("make the guaranteed pool larger by %d (guaranteed.cpus), as by %s of the shared pool", n, more), got)
			return
		}
	}
}

func (t *trial) tryExclusive(add func(string, *pools.Placement)) {
	n := 1
	t.placementWith(func(_ *pools.Pod, c *pools.Container, _ *pools.Input) {
		n = max(1, int(min(c.Resources.Shares, workload.MaxShares)+sharesPerCPU-1)/sharesPerCPU)
	})
	add("CPU and memory limits equal to the requests in all containers of the pod (QoS Guaranteed), "+layout.Count(n, "whole CPU")+" here", t.placementWith(requestWhole(n)))
}

// tryWorkloadTypes tries each workload type. It adds the annotation and the permission if they are
// missing.
func (t *trial) tryWorkloadTypes(add func(string, *pools.Placement)) {
	for i, part := range t.in.Pools.Partitions {
		key := t.in.Names.TargetKey(part.Type)
		what := ""
		got := t.placementWith(func(p *pools.Pod, _ *pools.Container, in *pools.Input) {
			if _, asked := p.Annotations[key]; !asked {
				if p.Annotations == nil {
					p.Annotations = make(map[string]string)
				}
				p.Annotations[key] = workload.TargetValue
				what = "annotation " + key + ": '" + workload.TargetValue + "' when the pod is made"
			}
			rights := &in.Namespaces
			annotated := rights.Asked && rights.Allows(p.Namespace, part.Type, p.CreatedAt)
			if !annotated && !slices.Contains(part.Namespaces, p.Namespace) && !p.Static() {
				in.Pools.Partitions = slices.Clone(in.Pools.Partitions)
				to := &in.Pools.Partitions[i]
				to.Namespaces = append(slices.Clone(to.Namespaces), p.Namespace)
				if what != "" {
					what += ", and "
				}
				what += "namespace " + p.Namespace + " among the namespaces of partition " + part.Type
				if rights.Asked {
					what += ", or with the type in its annotation " + in.Names.AllowedKey()
				}
			}
		})
		if what != "" && i < maxTries {
			add(what, got)
		}
	}
}

func placementText(at *pools.Placement) string {
	name := inspect.FullPool(at.Pool, at.Type)
	if at.Exclusive {
		return fmt.Sprintf("%s pool, exclusive CPUs, now %s", name, at.CPUs)
	}
	if at.Refused != nil {
		return "refused: " + at.Reason.Text
	}
	return fmt.Sprintf("%s pool, CPUs %s", name, at.CPUs)
}
