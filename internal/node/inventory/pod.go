package inventory

import (
	"cmp"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// PodByUID returns an entry of the pod with a UID, nil if there is none.
func (m *Inventory) PodByUID(uid string) *Pod {
	for _, e := range m.sandboxes[uid] {
		return e
	}
	return nil
}

type Pod struct {
	Pod       cri.Pod
	UID       string
	QoS       pools.QoS
	Slice     cgroup.Path // of the pod, "" if unknown
	Pause     cgroup.Path // of the pause container, "" if it has none
	sliceUnit cgroup.UnitState
	pauseUnit cgroup.UnitState
	added     int
	Err       error // why slice or pause are unknown
	// Unconfirmed and since are as in containerEntry.
	Unconfirmed bool
	since       time.Time
	// total is the pod's after a resize, as long as the runtime tells another.
	total pools.Resources
	// Unlisted says that the runtime does not list the sandbox, but containers of it.
	Unlisted bool
	Began    time.Time // on the daemon's clock
}

// PutPod adds or replaces a pod.
func (m *Inventory) PutPod(f PodStatus) {
	m.Clock++
	e := &Pod{Pod: f.Pod, UID: cmp.Or(f.UID, f.ID), sliceUnit: f.slice, pauseUnit: f.pause, added: m.Clock,
		Began: OnClock(f.CreatedAt, m.now())}
	if old := m.pods[f.ID]; old != nil {
		if f.Partial != nil && old.Err == nil {
			// A worse answer than the one before would move the pod's containers.
			old.Pod.Ready, old.added, old.Unlisted = old.Pod.Ready && f.Ready, m.Clock, false
			return
		}
		e.Pod.Ready = e.Pod.Ready && old.Pod.Ready // a sandbox never gets ready again
		if !old.Pod.CreatedAt.IsZero() {
			e.Began = old.Began
		}
		e.outgrown(old)
	}
	if e.Slice, e.Pause = f.foundSlice, f.foundPause; !f.lost() {
		e.Slice, e.Pause, e.Err = podPaths(f.Pod, m.driver)
	}
	e.Err = cmp.Or(f.Partial, e.Err)
	if _, qos, ok := cgroup.PodOf(e.Slice); ok {
		e.QoS = pools.QoS(qos)
	}
	m.setPod(f.ID, e)
}

// Name is the pod's, for people; empty if it is not known.
func (e *Pod) Name() string {
	if e.Pod.Name == "" {
		return ""
	}
	return e.Pod.Namespace + "/" + e.Pod.Name
}

func podPaths(p cri.Pod, d cgroup.Driver) (slice, pause cgroup.Path, err error) {
	if p.CgroupsPath != "" {
		if pause, err = cgroup.ContainerPath(p.CgroupsPath, d); err != nil {
			return "", "", err
		}
	}
	if p.CgroupParent != "" {
		slice, err = cgroup.PodPath(p.CgroupParent, d)
		return slice, pause, err
	}
	return pause.Parent(), pause, nil
}

// UIDOf is the UID of the newest pod of a name, "" if there is none.
func (m *Inventory) UIDOf(namespace, name string) string {
	var found *Pod
	for _, e := range m.pods {
		if e.Pod.Namespace == namespace && e.Pod.Name == name && (found == nil || newer(e.Pod, found.Pod)) {
			found = e
		}
	}
	if found == nil {
		return ""
	}
	return found.UID
}

// resources are the pod's total; zero if that is not known.
func (e *Pod) resources() pools.Resources {
	if e.total != (pools.Resources{}) {
		return e.total
	}
	return resourcesOf(e.Pod.Resources)
}

// outgrown takes over what resizes have made of the total, until the runtime tells the
// same.
func (e *Pod) outgrown(old *Pod) {
	if e.total = old.total; e.total.Shares == e.Pod.Resources.Shares {
		e.total = pools.Resources{}
	}
}

// AnnotationsOf are those of the newest pod of a UID.
func (m *Inventory) AnnotationsOf(uid string) map[string]string {
	for _, p := range m.pods {
		if p.UID == uid {
			return p.Pod.Annotations
		}
	}
	return nil
}

// AnnotationsOfPod are those of a sandbox.
func (m *Inventory) AnnotationsOfPod(id string) map[string]string {
	if p := m.pods[id]; p != nil {
		return p.Pod.Annotations
	}
	return nil
}

// Unread says that it is not known what a pod is, or what it asks for where that
// matters.
func (e *Pod) Unread() bool {
	switch e.QoS {
	case pools.QoSNone:
		return e.Err != nil
	case pools.QoSGuaranteed:
		return e.Err != nil && e.Pod.Resources.Shares == 0
	}
	return false
}
