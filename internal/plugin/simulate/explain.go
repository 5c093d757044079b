package simulate

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/internal/explain"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/verdict"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Explain explains the containers of a pod, one of them, or a unit, as the daemon does. There
// is no kernel and there are no writes.
func (n *Node) Explain(name string) (*inspect.Explanation, error) {
	all := inspect.AllContainers(&n.plan, nil)
	found, err := explain.Find(all, name)
	if e := n.explainPending(name); err != nil && e != nil {
		return e, nil
	}
	if err != nil {
		return nil, err
	}
	e := &inspect.Explanation{Version: inspect.Version, Asked: name, Subjects: []inspect.Subject{}}
	d := n.decision(&all[found[0]])
	for _, i := range found {
		if all[i].Name == pauseName && len(found) > 1 && !all[i].Unit {
			continue // explained only on request
		}
		s := d.Subject(&all[i], true)
		s.Container.ID = ""
		e.Subjects = append(e.Subjects, s)
	}
	return e, nil
}

// decision returns the plan with the facts about the pod of a container.
func (n *Node) decision(c *inspect.Container) explain.Decision {
	in := n.in()
	d := explain.Decision{Input: &in, Plan: &n.plan, Problems: n.plan.Problems, Pod: &verdict.Pod{}}
	for _, r := range n.pods {
		if !c.Unit && r.pod.UID == c.PodUID {
			_, d.Traces = pools.Explain(in, r.pod.UID)
			d.Pod = Facts(r.spec, r.defaults)
			d.Pod.Names = in.Names
			for _, p := range in.Pools.Partitions {
				d.Pod.Types = append(d.Pod.Types, p.Type)
			}
		}
	}
	return d
}

// Subjects returns the explanations of all containers and units that have not exited, by
// name, without the changes that lead to other CPUs: each change costs a plan.
func (n *Node) Subjects() []inspect.Subject {
	all := inspect.Containers(&n.plan, nil)
	subjects := make([]inspect.Subject, 0, len(all))
	decisions := make(map[string]explain.Decision, len(n.pods))
	for i := range all {
		d, made := decisions[all[i].PodUID]
		if !made || all[i].Unit {
			d = n.decision(&all[i])
			decisions[all[i].PodUID] = d
		}
		s := d.Subject(&all[i], false)
		s.Container.ID = ""
		subjects = append(subjects, s)
	}
	return subjects
}

// Facts returns the facts about a pod that its spec has. Names and Types are the caller's.
func Facts(pod *corev1.Pod, d admission.Defaults) *verdict.Pod {
	f := &verdict.Pod{Name: pod.Name, Annotations: pod.Annotations, Labels: pod.Labels}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		kind := "init container"
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			kind = "sidecar"
		}
		f.Containers = append(f.Containers, factsOf(kind, c.Name, &c.Resources))
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		f.Containers = append(f.Containers, factsOf("container", c.Name, &c.Resources))
	}
	if own, is := admission.OwnResources(pod, d); is {
		total := factsOf("", "spec.resources", &own) // a missing request is not the limit: d decides
		f.Total = &total
	}
	return f
}

// factsOf returns the amounts of a container, rounded up.
func factsOf(kind, name string, r *corev1.ResourceRequirements) verdict.Container {
	amount := func(of corev1.ResourceName, value func(resource.Quantity) int64) verdict.Amount {
		limit := r.Limits[of]
		request, requested := r.Requests[of]
		if !requested && kind != "" {
			request = limit // the API server's default for containers
		}
		return verdict.Amount{Request: max(value(request), 0), Limit: max(value(limit), 0)}
	}
	return verdict.Container{Kind: kind, Name: name,
		CPU:    amount(corev1.ResourceCPU, func(q resource.Quantity) int64 { return q.MilliValue() }),
		Memory: amount(corev1.ResourceMemory, func(q resource.Quantity) int64 { return q.Value() })}
}
