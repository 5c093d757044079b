package inventory

import (
	"github.com/cpupoold/cpupoold/internal/node/managers"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// Listing is the result of a complete listing.
type Listing struct {
	AsOf       int // the model's clock when the listing was asked for
	Units      []UnitStatus
	Crio       managers.CRIO
	Pods       []PodStatus // whose details were asked for
	Containers []ContainerStatus
	Known      Lists   // the others
	Failed     []error // objects whose details could not be had
	Err        error
}

// Lists are objects as the runtime lists them, without details.
type Lists struct {
	Pods       []cri.Pod
	Containers []cri.Container
}

// PodStatus is a pod and what systemd holds for it.
type PodStatus struct {
	cri.Pod
	pause, slice cgroup.UnitState // of the pause container's scope and the pod's slice
	Partial      error            // what the runtime left out
	// foundSlice and foundPause are its cgroups, where the runtime left those out.
	foundSlice, foundPause cgroup.Path
}

// ContainerStatus is a container and what systemd holds for it.
type ContainerStatus struct {
	cri.Container
	AsOf    int              // the model's clock when it was asked for
	unit    cgroup.UnitState // of its scope
	Partial error            // what the runtime left out
	found   cgroup.Path      // its cgroup, where the runtime left that out
}
