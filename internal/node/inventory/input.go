package inventory

import (
	"maps"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Input returns the inventory as the planner needs it: one pod for each UID, sorted by UID.
func (m *Objects) Input(now time.Time) []pools.Pod {
	out := make([]pools.Pod, 0, len(m.sandboxes))
	for _, uid := range slices.Sorted(maps.Keys(m.sandboxes)) {
		out = append(out, m.InputOf(uid, now))
	}
	return out
}

// InputOf returns the pod of Input with a UID, of which a sandbox must be known.
func (m *Objects) InputOf(uid string, now time.Time) pools.Pod {
	sandboxes := m.sandboxes[uid]
	p := inputPod(uid, sandboxes, now)
	n := len(sandboxes)
	for id := range sandboxes {
		n += len(m.within[id])
	}
	p.Containers = make([]pools.Container, 0, n)
	for id, e := range sandboxes {
		if e.Pod.Ready {
			p.Gone = p.Gone && e.unlisted // the containers of an unlisted sandbox decide below
		}
		if e.Pod.Ready && e.Pause != "" {
			p.Containers = append(p.Containers, pools.Container{
				ID: id, Name: pools.InfraName, Kind: pools.Infra, State: pools.Running, CreatedAt: e.Pod.CreatedAt.UnixNano(),
			})
		}
	}
	for id, e := range sandboxes {
		for _, ctr := range m.within[id] {
			c := ctr.input()
			if c.State == pools.Running || c.State == pools.Created && e.unlisted && e.Pod.Ready {
				p.Gone = false
			}
			if now.Sub(ctr.lastChange()) < settleTime {
				p.Settled = false
			}
			p.Containers = append(p.Containers, c)
		}
	}
	slices.SortFunc(p.Containers, pools.CompareContainers)
	return p
}

// inputPod returns a pod without containers, as if it were gone. The newest sandbox with
// details describes it.
func inputPod(uid string, sandboxes map[string]*Pod, now time.Time) pools.Pod {
	var e *Pod
	for _, s := range sandboxes {
		if e == nil || s.isBetterThan(e) {
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
		Resized:     e.isResized(),
		Settled:     now.Sub(e.began) >= settleTime,
		Gone:        true,
		Unread:      e.IsUnread(),
		CreatedAt:   unixNano(e.Pod.CreatedAt),
	}
}

// isBetterThan reports whether sandbox e, and not o, describes their pod.
func (e *Pod) isBetterThan(o *Pod) bool {
	if e.IsUnread() != o.IsUnread() {
		return o.IsUnread()
	}
	return isNewer(e.Pod, o.Pod)
}

// input returns the container as the planner needs it.
func (e *Container) input() pools.Container {
	c := pools.Container{
		ID:        e.Container.ID,
		Name:      e.Container.Name,
		State:     stateOf(e.Container.State),
		CreatedAt: e.Container.CreatedAt.UnixNano(),
		Resources: e.Request(),
		Devices:   e.Container.HasDevices,
	}
	if at := e.Container.FinishedAt; c.State == pools.Exited && !at.IsZero() {
		c.FinishedAt = at.UnixNano()
	}
	return c
}

// unixNano returns nanoseconds since the epoch, 0 for an unknown time.
func unixNano(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// isNewer reports whether sandbox a replaces b.
func isNewer(a, b cri.Pod) bool {
	if a.Ready != b.Ready {
		return a.Ready
	}
	return a.CreatedAt.After(b.CreatedAt) || a.CreatedAt.Equal(b.CreatedAt) && a.ID > b.ID
}

// stateOf returns the planner's state of a container. A container in an unknown state may
// run.
func stateOf(s cri.State) pools.ContainerState {
	switch s {
	case cri.Created:
		return pools.Created
	case cri.Exited:
		return pools.Exited
	default:
		return pools.Running
	}
}
