package daemon

import (
	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// applied is an event that knows what it changes.
type applied interface {
	apply(l *Loop)
}

// runtimeEvent came over the runtime's event stream.
type runtimeEvent struct{ cri.Event }

// streamChanged tells the state of the event stream.
type streamChanged struct {
	state cri.StreamState
	err   error
}

// podFetched and containerFetched are the results of a look at one object.
type podFetched struct {
	id   string
	asOf int // the model's clock when it was asked for
	pod  inventory.PodStatus
	err  error
}

type containerFetched struct {
	id        string
	container inventory.ContainerStatus
	err       error
}

// written is the result of one write that a worker made.
type written struct {
	write cgroup.Write
	unit  cgroup.UnitState // what systemd holds afterwards
	err   error
	// unmade says that it was left out, since it would have done harm.
	unmade bool
}

// unitRead is what systemd holds for a cgroup.
type unitRead struct {
	path cgroup.Path
	unit cgroup.UnitState
}

// saved is the result of writing the journal up to change number upTo.
type saved struct {
	upTo int
	err  error
}

// configLoaded is a configuration that was read again, or why it is refused.
type configLoaded struct {
	config *config.Config
	err    error
}

// systemdReloaded says that systemd has reloaded its units: values that were not
// recorded with it may be gone.
type systemdReloaded struct{}
