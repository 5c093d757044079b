package pools

import (
	"maps"
	"reflect"
	"slices"
)

// Planner makes plans as [Build] does, and gives the last one again while its input is the
// same, as it is after nearly all that happens on a node. Neither a plan nor an input that
// it was given may be changed afterwards. It is for one goroutine; the zero value has no
// plan yet.
type Planner struct {
	in   Input
	plan Plan
	made bool
}

// Build is [Build].
func (p *Planner) Build(in Input) Plan {
	if !p.made || !sameInput(&p.in, &in) {
		p.in, p.plan, p.made = in, Build(in), true
	}
	return p.plan
}

// sameInput reports whether two inputs are equal, and so have the same plan. Rights of
// namespaces are not compared: if they have an effect, each plan is computed.
func sameInput(a, b *Input) bool {
	return !a.Namespaces.Asked && !b.Namespaces.Asked &&
		a.Machine == b.Machine && a.Names == b.Names && a.Partitions == b.Partitions && a.Interrupts == b.Interrupts &&
		a.StaticPods.All == b.StaticPods.All && slices.Equal(a.StaticPods.Namespaces, b.StaticPods.Namespaces) &&
		a.Resting.Equal(b.Resting) &&
		slices.EqualFunc(a.Previous, b.Previous, Assignment.Equal) && slices.EqualFunc(a.Held, b.Held, Assignment.Equal) &&
		samePools(&a.Pools, &b.Pools) && samePods(a.Pods, b.Pods)
}

func samePools(a, b *Pools) bool {
	return a.FromShared == b.FromShared && a.Floor == b.Floor && a.Kubelet == b.Kubelet && a.Options == b.Options &&
		a.BindMemory == b.BindMemory && a.Infra == b.Infra && a.PodLevel == b.PodLevel &&
		a.Shared.Equal(b.Shared) && a.Guaranteed.Equal(b.Guaranteed) && a.Offline.Equal(b.Offline) && a.Away.Equal(b.Away) &&
		a.Mixed.Shared == b.Mixed.Shared && a.Mixed.CPUs.Equal(b.Mixed.CPUs) && slices.Equal(a.Mixed.Namespaces, b.Mixed.Namespaces) &&
		slices.Equal(a.Overrides, b.Overrides) && slices.Equal(a.Units, b.Units) &&
		slices.EqualFunc(a.Partitions, b.Partitions, func(a, b Partition) bool {
			return a.Type == b.Type && a.CPUs.Equal(b.CPUs) && slices.Equal(a.Namespaces, b.Namespaces)
		})
}

func samePods(a, b []Pod) bool {
	if len(a) != len(b) {
		return false
	}
	if len(a) > 0 && &a[0] == &b[0] {
		return true
	}
	for i := range a {
		if !samePod(&a[i], &b[i]) {
			return false
		}
	}
	return true
}

func samePod(a, b *Pod) bool {
	if a.UID != b.UID || a.Namespace != b.Namespace || a.Name != b.Name || a.QoS != b.QoS || a.CreatedAt != b.CreatedAt || a.Resources != b.Resources ||
		a.Gone != b.Gone || a.Unread != b.Unread || a.Settled != b.Settled || len(a.Containers) != len(b.Containers) {
		return false
	}
	for i := range a.Containers {
		if !sameContainer(&a.Containers[i], &b.Containers[i]) {
			return false
		}
	}
	// The maps are nearly always identical: comparing their entries costs more than all other fields.
	return reflect.ValueOf(a.Annotations).UnsafePointer() == reflect.ValueOf(b.Annotations).UnsafePointer() || maps.Equal(a.Annotations, b.Annotations)
}

func sameContainer(a, b *Container) bool {
	return a.ID == b.ID && a.Name == b.Name && a.Kind == b.Kind && a.State == b.State && a.CreatedAt == b.CreatedAt && a.FinishedAt == b.FinishedAt &&
		a.Resources == b.Resources && a.Waiting == b.Waiting && a.Nodes.Equal(b.Nodes) && sameForeign(a.Foreign, b.Foreign)
}

func sameForeign(a, b *Foreign) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Manager == b.Manager && a.Alone == b.Alone && a.CPUs.Equal(b.CPUs) && a.Runs.Equal(b.Runs)
}
