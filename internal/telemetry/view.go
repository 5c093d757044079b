// Package telemetry shows what the daemon does: /metrics, /healthz and /readyz
// on one address.
//
// It keeps no count of its own of what the daemon does: everything comes from
// the View that the daemon publishes after each pass, and from the kernel at the
// time of the scrape. The metrics are a table (see specs), from which
// docs/metrics.md is made.
package telemetry

import (
	"time"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// View is the daemon's state after a pass. It is not changed once published.
type View struct {
	Pools      []Pool
	Containers []Container
	// Problems counts the inputs that could not be honoured, by reason code.
	Problems map[string]int
	// Passes and Writes count since the daemon's start.
	Passes map[Result]uint64
	Writes map[Write]uint64
	// Ready says that the first pass is over: everything that could be placed has
	// been placed and recorded.
	Ready bool
	// LastSuccess is the end of the last pass after which every cgroup was
	// verified to be as planned; zero before the first one.
	LastSuccess time.Time
	// Sources tells how each source of events fares.
	Sources map[Source]SourceState
	// ConfigStale says that the configuration file has problems, so that an
	// older one is in force.
	ConfigStale bool
}

// Pool is a pool with its CPUs that are online.
type Pool struct {
	PoolName
	CPUs cpuset.Set
	// Free are the CPUs that no container holds; of use in the guaranteed pool.
	Free cpuset.Set
}

// PoolName names a pool: management, shared or guaranteed, and for management
// pools the workload type.
type PoolName struct {
	Pool, Type string
}

// Container is a container that the daemon knows.
type Container struct {
	PoolName
	ID, Namespace, Pod, Name string
	// Reason is the code of the reason why it is in its pool.
	Reason string
	// Cgroup is the path below the cgroup root, without a leading slash; empty
	// when the container does not run.
	Cgroup string
}

// Result is how a pass or a write ended.
type Result string

// A pass is OK when everything is as planned afterwards.
const (
	OK     Result = "ok"
	Failed Result = "failed"
)

// Write is a kind of write, by the way it took: file, cri or dbus.
type Write struct {
	Via    string
	Result Result
}

// Source is something that wakes the daemon.
type Source string

// CRIEvents is the runtime's event stream.
const CRIEvents Source = "cri_events"

// SourceState is how a source fares. Only OK is quick; none is needed for
// correctness.
type SourceState string

// Polling: the source does not exist here and its place is taken by polling.
// Lost: it broke and is being reestablished.
const (
	SourceOK      SourceState = "ok"
	SourcePolling SourceState = "polling"
	SourceLost    SourceState = "lost"
)
