package daemon

import (
	"time"

	"github.com/cpupoold/cpupoold/internal/node/hostslices"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/view"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// status is what the owner remembers of its own work. It is the raw material of
// a snapshot; no decision about CPUs depends on it.
type status struct {
	listed         bool      // a complete listing has been taken over
	listing        bool      // one is under way
	lastRecheck    time.Time // when all cgroups were last to be looked at again
	recheckPending bool      // the next whole pass is to look at them
	began          time.Time // when the last pass began
	// incomplete counts the listings, one after another, of which some details could
	// not be had.
	incomplete int
	// removed are cgroups that are gone although the runtime has not said so;
	// the value is the container or sandbox that is being asked for.
	removed map[cgroup.Path]string

	// unitAsked are cgroups of which systemd has been asked since the last listing.
	unitAsked map[cgroup.Path]bool
	// unitAwaited are those of which it has not answered yet.
	unitAwaited map[cgroup.Path]bool
	// reverting are units that are being given their properties back, or refused to
	// be since the last listing.
	reverting map[string]bool
	away      map[string]bool     // of these, those that do not exist any more
	leaving   []pools.Assignment  // of units that are not placed any more
	asks      map[string]*unitAsk // by the name that is asked for
	unitsLost bool                // systemd does not tell what happens to units
	// reloadsLost says that systemd does not tell when it has reloaded.
	reloadsLost bool
	cpusLost    bool                 // the kernel does not tell of CPUs that come and go
	hosts       []hostslices.Verdict // what becomes of host services

	plan       pools.Plan
	input      pools.Input // that of plan; nothing of it is changed any more
	targets    []cgroup.Target
	deferred   []cgroup.Deferred
	unreadable map[cgroup.Path]error

	stream     cri.StreamState
	nri        telemetry.SourceState // empty before the first try
	runtimeErr error
	configErr  error
	planned    bool // a pass has been made

	passes      map[telemetry.Result]uint64
	writes      map[telemetry.Write]uint64
	writeErrors map[telemetry.WriteError]uint64
	// partitionChanges counts writes of cpuset.cpus.partition that the kernel has taken.
	partitionChanges uint64
	vacancy          view.Vacancy
	unwritten        map[cgroup.Write]bool // what is not written (mode: observe)
	faults           map[cgroup.Path]error // what the last pass has left
	lastSuccess      time.Time
	ready            bool
	reported         map[problemKey]bool // problems that are in the log
	problems         []pools.Problem     // of the last pass
	noise            map[string]string   // likewise, what owners really have, by container
	bootArgs         []string            // likewise, what the kernel was not told
}

func newStatus() status {
	return status{
		removed:   make(map[cgroup.Path]string),
		unitAsked: make(map[cgroup.Path]bool),

		unitAwaited: make(map[cgroup.Path]bool),
		reverting:   make(map[string]bool),
		asks:        make(map[string]*unitAsk),
		away:        make(map[string]bool),
		passes:      make(map[telemetry.Result]uint64),
		writes:      make(map[telemetry.Write]uint64),
		writeErrors: make(map[telemetry.WriteError]uint64),
	}
}
