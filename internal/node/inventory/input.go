package inventory

import (
	"maps"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Input is the model as the planner wants it: one pod per UID, sorted by it.
func (m *Inventory) Input(now time.Time) []pools.Pod {
	out := make([]pools.Pod, 0, len(m.sandboxes))
	for _, uid := range slices.Sorted(maps.Keys(m.sandboxes)) {
		out = append(out, m.InputOf(uid, now))
	}
	return out
}

// InputOf is one of them, of a UID that is known.
func (m *Inventory) InputOf(uid string, now time.Time) pools.Pod {
	sandboxes := m.sandboxes[uid]
	p := inputPod(uid, sandboxes, now)
	n := len(sandboxes)
	for id := range sandboxes {
		n += len(m.within[id])
	}
	p.Containers = make([]pools.Container, 0, n)
	for id, e := range sandboxes {
		if e.Pod.Ready {
			p.Gone = p.Gone && e.Unlisted // then its containers tell
		}
		if e.Pod.Ready && e.Pause != "" {
			p.Containers = append(p.Containers, pools.Container{
				ID: id, Name: InfraName, Kind: pools.Infra, State: pools.Running, CreatedAt: e.Pod.CreatedAt.UnixNano(),
			})
		}
	}
	for id, e := range sandboxes {
		for _, ctr := range m.within[id] {
			c := ctr.input()
			if c.State == pools.Running || c.State == pools.Created && e.Unlisted && e.Pod.Ready {
				p.Gone = false
			}
			if now.Sub(ctr.changed()) < SettleTime {
				p.Settled = false
			}
			p.Containers = append(p.Containers, c)
		}
	}
	slices.SortFunc(p.Containers, pools.CompareContainers)
	return p
}

// inputPod is a pod without containers, as if it were gone. Of those sandboxes that the
// runtime has described the newest tells what a pod is.
func inputPod(uid string, sandboxes map[string]*Pod, now time.Time) pools.Pod {
	var e *Pod
	for _, s := range sandboxes {
		if e == nil || s.tellsMore(e) {
			e = s
		}
	}
	return pools.Pod{
		UID:         uid,
		Namespace:   e.Pod.Namespace,
		Name:        e.Pod.Name,
		QoS:         e.QoS,
		Annotations: e.Pod.Annotations,
		Resources:   e.resources(),
		Settled:     now.Sub(e.Began) >= SettleTime,
		Gone:        true,
		Unread:      e.Unread(),
		CreatedAt:   nanoseconds(e.Pod.CreatedAt),
	}
}

// tellsMore says that e, and not o, tells what their pod is.
func (e *Pod) tellsMore(o *Pod) bool {
	if e.Unread() != o.Unread() {
		return o.Unread()
	}
	return newer(e.Pod, o.Pod)
}

// input is the container as the planner wants it.
func (e *Container) input() pools.Container {
	c := pools.Container{
		ID:        e.Container.ID,
		Name:      e.Container.Name,
		State:     stateOf(e.Container.State),
		CreatedAt: e.Container.CreatedAt.UnixNano(),
		Resources: e.Request(),
	}
	if at := e.Container.FinishedAt; c.State == pools.Exited && !at.IsZero() {
		c.FinishedAt = at.UnixNano()
	}
	return c
}

// nanoseconds since the epoch; 0 stands for a time that is not known.
func nanoseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func newer(a, b cri.Pod) bool {
	if a.Ready != b.Ready {
		return a.Ready
	}
	return a.CreatedAt.After(b.CreatedAt) || a.CreatedAt.Equal(b.CreatedAt) && a.ID > b.ID
}

func stateOf(s cri.State) pools.ContainerState {
	switch s {
	case cri.Created:
		return pools.Created
	case cri.Exited:
		return pools.Exited
	default: // Unknown too: it may well run
		return pools.Running
	}
}
