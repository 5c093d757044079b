package daemon

import (
	"cmp"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// input is the model as the planner wants it: one pod per UID.
func (m *model) input(now time.Time) []pools.Pod {
	byUID := m.inputPods(now)
	for id, e := range m.pods {
		p := byUID[e.uid]
		if !e.pod.Ready {
			continue
		}
		p.Gone = p.Gone && e.unlisted // then its containers tell
		if e.pause != "" {
			p.Containers = append(p.Containers, pools.Container{
				ID: id, Name: infraName, Kind: pools.Infra, State: pools.Running, CreatedAt: e.pod.CreatedAt.UnixNano(),
			})
		}
	}
	for _, e := range m.containers {
		pod := m.pods[e.container.PodID]
		if pod == nil {
			continue // it has exited, and its sandbox is gone, or it is not known whose it is
		}
		p, c := byUID[pod.uid], e.input()
		if c.State == pools.Running || c.State == pools.Created && pod.unlisted && pod.pod.Ready {
			p.Gone = false
		}
		if now.Sub(e.changed()) < settleTime {
			p.Settled = false
		}
		p.Containers = append(p.Containers, c)
	}
	out := make([]pools.Pod, 0, len(byUID))
	for _, p := range byUID {
		slices.SortFunc(p.Containers, pools.CompareContainers)
		out = append(out, *p)
	}
	slices.SortFunc(out, func(a, b pools.Pod) int { return cmp.Compare(a.UID, b.UID) })
	return out
}

// inputPods are the pods by UID, without containers, as if they were gone. Of
// those sandboxes that the runtime has described the newest tells what a pod is.
func (m *model) inputPods(now time.Time) map[string]*pools.Pod {
	newest := make(map[string]*podEntry, len(m.pods))
	for _, e := range m.pods {
		if best := newest[e.uid]; best == nil || e.tellsMore(best) {
			newest[e.uid] = e
		}
	}
	byUID := make(map[string]*pools.Pod, len(newest))
	for uid, e := range newest {
		byUID[uid] = &pools.Pod{
			UID:         uid,
			Namespace:   e.pod.Namespace,
			Name:        e.pod.Name,
			QoS:         e.qos,
			Annotations: e.pod.Annotations,
			Resources:   e.resources(),
			Settled:     now.Sub(e.began) >= settleTime,
			Gone:        true,
			Unread:      e.unread(),
			CreatedAt:   nanoseconds(e.pod.CreatedAt),
		}
	}
	return byUID
}

// tellsMore says that e, and not o, tells what their pod is.
func (e *podEntry) tellsMore(o *podEntry) bool {
	if e.unread() != o.unread() {
		return o.unread()
	}
	return newer(e.pod, o.pod)
}

// input is the container as the planner wants it.
func (e *containerEntry) input() pools.Container {
	c := pools.Container{
		ID:        e.container.ID,
		Name:      e.container.Name,
		State:     stateOf(e.container.State),
		CreatedAt: e.container.CreatedAt.UnixNano(),
		Resources: asked(e.container),
	}
	if at := e.container.FinishedAt; c.State == pools.Exited && !at.IsZero() {
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
