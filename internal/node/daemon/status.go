package daemon

import (
	"time"

	"github.com/cpupoold/cpupoold/internal/node/auxiliary"
	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/usablecpus"
	"github.com/cpupoold/cpupoold/internal/node/view"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// status holds the progress and the results of the event loop's work, from which snapshots are
// made.
type status struct {
	listed         bool      // a listing was complete
	listing        bool      // in progress
	lastRecheck    time.Time // the last scheduled scan
	recheckPending bool      // the next full pass scans
	began          time.Time // start of the last pass
	incomplete     int       // incomplete listings in succession
	firstList      time.Time // start of the first listing.
	synchronized   func()    // fetches the objects that NRI has listed during the first listing

	unitsLost   bool // systemd reports no units
	reloadsLost bool // systemd reports no reloads
	cpusLost    bool // no events of CPUs
	withheld    []usablecpus.Withheld

	plan       pools.Plan
	input      pools.Input // of plan; immutable
	targets    []cgroup.Target
	deferred   []cgroup.Deferred
	unreadable map[cgroup.Path]error
	auxiliary  []auxiliary.Cgroup // in pods, of no container

	stream     cri.StreamState
	nri        telemetry.SourceState // empty before the first try
	nriErr     error                 // why it is not connected
	runtimeErr error
	configErr  error
	planned    bool // a pass has been made
	nriOpen    bool // watchNRI may connect

	counts      view.Counts
	capacity    view.Capacity
	unwritten   map[cgroup.Write]bool // omitted writes (mode: observe)
	faults      map[cgroup.Path]error // cgroups that the last pass could not correct
	lastSuccess time.Time
	ready       bool
	reported    map[problemKey]bool // logged problems
	problems    []pools.Problem     // of the last pass
	noise       map[string]string   // of the last pass, by container
	bootArgs    []string            // missing kernel parameters in the last pass
}

// runsOutside returns a function that reports whether a cgroup runs on CPUs outside its target:
// exclusive CPUs of an owner, or CPUs of another pool. The rule is the same for all pools. An
// application container on management CPUs delays the services of the node. A management
// container on shared CPUs delays applications, and an owner on shared CPUs has lost its isolation.
func (s *status) runsOutside(cache *kernelstate.Cache) func(cgroup.Path) bool {
	return func(p cgroup.Path) bool {
		t := targetAt(s.targets, p)
		return t != nil && !t.CPUs.IsEmpty() && !cache.Current(p).Effective.IsSubsetOf(t.CPUs)
	}
}

// targetAt returns the target of a cgroup, or nil.
func targetAt(targets []cgroup.Target, p cgroup.Path) *cgroup.Target {
	for i := range targets {
		if targets[i].Path == p {
			return &targets[i]
		}
	}
	return nil
}
