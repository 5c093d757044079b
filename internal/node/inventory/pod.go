package inventory

import (
	"cmp"
	"errors"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Pod is one sandbox of a pod.
type Pod struct {
	// Pod is the sandbox as the runtime reports it. It never becomes ready again.
	Pod cri.Pod
	// UID is the sandbox id if the runtime does not report the UID.
	UID string
	QoS pools.QoS
	// Slice is the cgroup of the pod, "" if unknown.
	Slice cgroup.Path
	// System is the root of the kubelet's system partition if the pod is in it, else "".
	System cgroup.Path
	// Pause is the cgroup of the pause container, "" if unknown.
	Pause cgroup.Path

	sliceUnit, pauseUnit cgroup.UnitState
	// added is the clock of the last report.
	added int
	// err is the reason why Slice or Pause are unknown.
	err error
	// total holds the resources after a resize until the runtime reports the same. If the daemon
	// has computed them, before holds the resources before the resize.
	total, before pools.Resources
	// unlisted is true if the runtime lists containers of the sandbox without the sandbox.
	unlisted bool
	expectation
	// began is the time of the creation, on the daemon's clock.
	began time.Time

	objects *Objects
}

// PutPod applies the answer to lookup.FetchPod. It reports whether the answer counts. An error
// does not count. An answer that is older than the removal of the sandbox does not count
// either. A sandbox that NRI has just reported may still be missing in the runtime.
func (m *Inventory) PutPod(f lookup.PodStatus) bool {
	switch {
	case m.isOutdated(f.ID, f.AsOf):
		return false
	case f.Err == nil:
		m.putPod(f)
		return true
	case errors.Is(f.Err, cri.ErrNotFound):
		if e := m.objects.pods[f.ID]; e != nil && e.isExpected(m.now()) {
			return false
		}
		m.unlist(f.ID)
		return true
	}
	return false
}

// putPod adds or replaces a sandbox. Known details survive an answer without details:
// their loss would move the pod's containers.
func (m *Inventory) putPod(f lookup.PodStatus) {
	e := &Pod{objects: m.objects, Pod: f.Pod, UID: cmp.Or(f.UID, f.ID), sliceUnit: f.SliceUnit, pauseUnit: f.PauseUnit, added: m.tick(), began: onClock(f.CreatedAt, m.now())}
	if old := m.objects.pods[f.ID]; old != nil {
		if f.Partial != nil && old.err == nil {
			old.Pod.Ready, old.added, old.unlisted = old.Pod.Ready && f.Ready, e.added, false
			return
		}
		e.Pod.Ready = e.Pod.Ready && old.Pod.Ready
		if !old.Pod.CreatedAt.IsZero() {
			e.began = old.began
		}
		if e.Pod.Resources.Shares == 0 { // the daemon can have removed the quota of the slice
			e.Pod.Resources = old.Pod.Resources
		}
		e.keepTotal(old)
	}
	e.Slice, e.Pause, e.err = f.Cgroups(m.driver)
	e.err = cmp.Or(f.Partial, e.err)
	if _, qos, ok := cgroup.PodOf(e.Slice); ok {
		e.QoS = pools.QoS(qos)
	}
	if root, inside := e.Slice.SystemPartition(); inside {
		e.System = root
	}
	m.objects.setPod(f.ID, e)
}

// Name returns namespace and name of the pod. It is empty if the name is unknown.
func (e *Pod) Name() string {
	if e.Pod.Name == "" {
		return ""
	}
	return e.Pod.Namespace + "/" + e.Pod.Name
}

// Annotations returns the annotations of the pod; none for a nil pod.
func (e *Pod) Annotations() map[string]string {
	if e == nil {
		return nil
	}
	return e.Pod.Annotations
}

// IsUnread reports whether the runtime has not reported the QoS class of the pod or, for a
// Guaranteed pod, its resources.
func (e *Pod) IsUnread() bool {
	switch e.QoS {
	case pools.QoSNone:
		return e.err != nil
	case pools.QoSGuaranteed:
		return e.err != nil && e.Pod.Resources.Shares == 0
	}
	return false
}
