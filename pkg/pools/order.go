package pools

import (
	"cmp"
	"slices"
)

// Pods and containers are large, and come in order in nearly all cases: they are
// compared where they are, and what is in order is left alone.

// sortPods sorts pods by UID, those with the same one by name.
func sortPods(pods []Pod) {
	for i := range pods {
		if i > 0 && comparePods(&pods[i-1], &pods[i]) > 0 {
			slices.SortStableFunc(pods, func(a, b Pod) int { return comparePods(&a, &b) })
			return
		}
	}
}

func comparePods(a, b *Pod) int {
	if c := cmp.Compare(a.UID, b.UID); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// sortContainers sorts the containers of each pod. Those that come in another order
// are copied, into one piece of memory.
func sortContainers(pods []Pod) {
	n := 0
	for i := range pods {
		if !areSorted(pods[i].Containers) {
			n += len(pods[i].Containers)
		}
	}
	if n == 0 {
		return
	}
	room := make([]Container, 0, n)
	var order []*Container
	for i := range pods {
		p := &pods[i]
		if areSorted(p.Containers) {
			continue
		}
		order = order[:0]
		for j := range p.Containers {
			order = append(order, &p.Containers[j])
		}
		slices.SortFunc(order, compareContainers)
		first := len(room)
		for _, ctr := range order {
			room = append(room, *ctr)
		}
		p.Containers = room[first:len(room):len(room)]
	}
}

func areSorted(containers []Container) bool {
	for i := 1; i < len(containers); i++ {
		if compareContainers(&containers[i-1], &containers[i]) > 0 {
			return false
		}
	}
	return true
}

// CompareContainers is the order in which the containers of a pod are taken, the pause
// container first. Those that come in another one are copied.
func CompareContainers(a, b Container) int { return compareContainers(&a, &b) }

func compareContainers(a, b *Container) int {
	if a.Kind != b.Kind {
		return cmp.Compare(b.Kind, a.Kind)
	}
	if c := cmp.Compare(a.Name, b.Name); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(a.CreatedAt, b.CreatedAt), cmp.Compare(a.ID, b.ID))
}
