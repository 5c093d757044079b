package daemon

import (
	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/managers"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// event is something that the owner has to know. Every event is a hint or the
// result of a job; losing any source costs latency and never correctness.
type event any

// applied is an event that knows what it changes.
type applied interface {
	apply(l *loop)
}

// runtimeEvent came over the runtime's event stream.
type runtimeEvent struct{ cri.Event }

// streamChanged tells the state of the event stream.
type streamChanged struct {
	state cri.StreamState
	err   error
}

// listed is the result of a complete listing.
type listed struct {
	asOf       int // the model's clock when the listing was asked for
	units      []unitFetched
	crio       managers.CRIO
	pods       []podFacts // whose details were asked for
	containers []containerFacts
	known      lists   // the others
	failed     []error // objects whose details could not be had
	err        error
}

// lists are objects as the runtime lists them, without details.
type lists struct {
	pods       []cri.Pod
	containers []cri.Container
}

// podFetched and containerFetched are the results of a look at one object.
type podFetched struct {
	id   string
	asOf int // the model's clock when it was asked for
	pod  podFacts
	err  error
}

type containerFetched struct {
	id        string
	container containerFacts
	err       error
}

// podFacts is a pod and what systemd holds for it.
type podFacts struct {
	cri.Pod
	pause, slice cgroup.UnitState // of the pause container's scope and the pod's slice
	partial      error            // what the runtime left out
	// foundSlice and foundPause are its cgroups, where the runtime left those out.
	foundSlice, foundPause cgroup.Path
}

// containerFacts is a container and what systemd holds for it.
type containerFacts struct {
	cri.Container
	asOf    int              // the model's clock when it was asked for
	unit    cgroup.UnitState // of its scope
	partial error            // what the runtime left out
	found   cgroup.Path      // its cgroup, where the runtime left that out
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

// formulaFound is the answer of the OCI runtime to the question for its version.
type formulaFound struct {
	formula config.WeightFormula
	version string // as the runtime prints it
}

// configLoaded is a configuration that was read again, or why it is refused.
type configLoaded struct {
	config *config.Config
	err    error
}

// reexecuted says that systemd has reloaded its units: values that were not
// recorded with it may be gone.
type reexecuted struct{}
