package daemon

import (
	"cmp"
	"fmt"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// resize takes a container's new resources into the model, and returns where it is to
// be then, nil if that is not known. A container that asks for more CPUs of its own than
// it can get is refused, where others are that do so at their creation, and keeps what
// it has.
func (l *Loop) resize(e *inventory.Container, to cri.Resources) (*pools.Placement, error) {
	before := e.Request().ExclusiveCPUs()
	undo := l.inventory.Resize(e, to)
	more := e.Request().ExclusiveCPUs()
	if !l.status.planned {
		return nil, nil //nolint:nilnil // see above
	}
	plan, _ := l.input(l.now()).Decide()
	pod, p := findPlacement(&plan, e.Container.ID)
	if p == nil {
		return nil, nil //nolint:nilnil // see above
	}
	why := cmp.Or(p.Refused, p.Short)
	if why == nil || more <= before || l.settings.Config.OnRefusal == config.RefusalShared {
		return p, nil
	}
	undo()
	return nil, l.refuseResize(pod, e, more, why)
}

// refuseResize records that a resize is refused.
func (l *Loop) refuseResize(pod *pools.PodPlan, e *inventory.Container, to int, why *allocate.Refusal) error {
	l.refusalLog.total[why.Code]++
	l.log.Warn("resize refused", "pod", pod.Namespace+"/"+pod.Name, "container", e.Container.Name, "container_id", e.Container.ID,
		"asked", to, "code", why.Code, "why", why.Why)
	has := "no CPUs of its own"
	if _, p := findPlacement(&l.status.plan, e.Container.ID); p != nil && p.Exclusive {
		has = "CPUs " + p.CPUs.String()
	}
	return fmt.Errorf("cpupoold: %s/%s, container %s: resize to %d CPUs of its own: %s: %s; it keeps what it has, %s",
		pod.Namespace, pod.Name, e.Container.Name, to, why.Code, why.Why, has)
}
