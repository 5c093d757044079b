package pools

import (
	"cmp"
	"slices"
)

// Build makes the plan for a node. It is a function of in alone: the order of
// Pods, Containers and Previous does not matter, and a plan's Assignments given
// as the next Previous change nothing.
func Build(in Input) Plan {
	pods := present(in.Pods)
	c := classifier{in: &in}
	verdicts, partitions := c.classify(pods)

	var assigned []claim
	free := in.Pools.Guaranteed
	if !free.IsEmpty() {
		assigned = claims(pods, verdicts, in.Previous)
		free = assign(in.Machine, in.Pools.Guaranteed, pods, assigned)
	}

	plan := Plan{Pods: make([]PodPlan, 0, len(pods)), Shared: in.Pools.Shared, Free: free}
	placer := placer{pools: in.Pools, free: free.Len(), room: make([]Placement, 0, countContainers(pods))}
	for i := range pods {
		var of []claim
		of, assigned = cutClaims(assigned, i)
		plan.Pods = append(plan.Pods, placer.pod(&pods[i], partitions[i], verdicts[i], of))
		plan.Assignments = appendAssignments(plan.Assignments, of)
	}
	plan.Problems = append(c.problems, placer.problems...)
	slices.SortFunc(plan.Problems, compareProblems)
	return plan
}

// present returns the pods that are not gone, sorted, with their containers
// sorted. Of pods with the same UID the first counts, and has the containers of
// all: such is a pod whose sandbox is being replaced.
func present(in []Pod) []Pod {
	pods := make([]Pod, 0, len(in))
	for _, p := range in {
		if !p.Gone {
			pods = append(pods, p)
		}
	}
	slices.SortStableFunc(pods, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(a.UID, b.UID), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	n := 0
	for i := range pods {
		if i > 0 && pods[i].UID == pods[n-1].UID {
			pods[n-1].Containers = slices.Concat(pods[n-1].Containers, pods[i].Containers)
			continue
		}
		pods[n] = pods[i]
		n++
	}
	pods = pods[:n]
	for i := range pods {
		if !slices.IsSortedFunc(pods[i].Containers, compareContainers) {
			pods[i].Containers = slices.Clone(pods[i].Containers)
			slices.SortFunc(pods[i].Containers, compareContainers)
		}
	}
	return pods
}

// compareContainers puts the pause container first.
func compareContainers(a, b Container) int {
	return cmp.Or(cmp.Compare(b.Kind, a.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.CreatedAt, b.CreatedAt), cmp.Compare(a.ID, b.ID))
}

func compareProblems(a, b Problem) int {
	return cmp.Or(cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.PodUID, b.PodUID), cmp.Compare(a.Container, b.Container),
		cmp.Compare(a.Code, b.Code), cmp.Compare(a.Text, b.Text))
}

// classify returns a verdict for each container, and for each pod its partition;
// the zero Partition for ordinary pods.
func (c *classifier) classify(pods []Pod) ([][]verdict, []Partition) {
	verdicts, partitions := make([][]verdict, len(pods)), make([]Partition, len(pods))
	room := make([]verdict, countContainers(pods))
	for i := range pods {
		p := &pods[i]
		verdicts[i], room = room[:len(p.Containers)], room[len(p.Containers):]
		partition, managed := c.partition(p)
		if managed {
			partitions[i] = partition
			c.managed(p, partition.Type, verdicts[i])
			continue
		}
		for j := range p.Containers {
			verdicts[i][j] = c.ordinary(p, &p.Containers[j])
		}
	}
	return verdicts, partitions
}

func countContainers(pods []Pod) int {
	n := 0
	for i := range pods {
		n += len(pods[i].Containers)
	}
	return n
}

// cutClaims cuts the claims of a pod from the front of the sorted claims of all
// that come from it on.
func cutClaims(claims []claim, pod int) (of, rest []claim) {
	n := 0
	for n < len(claims) && claims[n].pod == pod {
		n++
	}
	return claims[:n], claims[n:]
}

func appendAssignments(all []Assignment, claims []claim) []Assignment {
	for _, c := range claims {
		if !c.cpus.IsEmpty() {
			all = append(all, Assignment{c.key, c.cpus})
		}
	}
	return all
}
