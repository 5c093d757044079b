package view

import (
	"time"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Snapshot is the state of the event loop after a pass. It is never changed. Documents for
// operators are made of it on request.
type Snapshot struct {
	desired.Decision
	View     *telemetry.View
	History  *history.Snapshot
	Settings desired.Settings
	Planned  bool // false: there is no decision yet
	Deferred []cgroup.Deferred
	Faults   map[cgroup.Path]error
	Problems []pools.Problem
	Began    time.Time // of the last pass
	Config   error     // why a newer configuration is not in force
	Observes bool
	Owed     int // writes that an observing daemon has not made
	// Live holds the results of the live audit; nil if it is off.
	Live   *telemetry.LiveAudit
	System *inspect.SystemPartition
}

func (in *Snapshot) pools() []inspect.Pool {
	all := make([]inspect.Pool, 0, len(in.View.Pools))
	using := in.usingClaims()
	for _, p := range in.View.Pools {
		pool := inspect.Pool{Name: p.Pool, CPUs: p.CPUs}
		if c := inspect.PoolOfClaims(&in.Settings.Pools, &in.Plan); c != nil && p.Pool == inspect.ClaimedPool {
			pool = *c
			pool.Containers = len(using)
		}
		if p.Pool == inspect.Management {
			pool.Type = p.Type
		}
		if p.Pool == inspect.Guaranteed {
			pool.Free, pool.FromShared = p.Free, in.Settings.Pools.FromShared
			pool.Idle, pool.Resting, pool.Parked = in.Plan.Idle, in.Plan.Resting, in.View.Parked
			for _, a := range in.Plan.Assignments {
				if a.Claim == "" {
					pool.Owned = pool.Owned.Union(a.CPUs)
				}
			}
		}
		for _, c := range in.View.Containers {
			if c.PoolName == p.PoolName && !using[c.ID] {
				pool.Containers++
			}
		}
		all = append(all, pool)
	}
	return all
}

// usingClaims returns the IDs of the containers that run on the CPUs of ResourceClaims.
func (in *Snapshot) usingClaims() map[string]bool {
	ids := make(map[string]bool)
	for _, c := range in.Plan.Containers() {
		if len(c.Claims) > 0 && c.Pool == pools.Guaranteed && c.State != pools.Exited {
			ids[c.ID] = true
		}
	}
	return ids
}

// AllContainers returns all containers and units of the plan, sorted by name.
func (in *Snapshot) AllContainers() []inspect.Container {
	return inspect.AllContainers(&in.Plan, in.live())
}

// live returns a function that adds the cgroup and the isolation mode in force.
func (in *Snapshot) live() func(*inspect.Container) {
	shown := make(map[string]*telemetry.Container, len(in.View.Containers))
	for i := range in.View.Containers {
		c := &in.View.Containers[i]
		if c.Unit {
			shown[c.Name] = c
		} else {
			shown[c.ID] = c
		}
	}
	return func(c *inspect.Container) {
		key := c.ID
		if c.Unit {
			key = c.Name
		}
		if v := shown[key]; v != nil {
			c.Mode, c.Cgroup = v.Isolation, v.Cgroup
		}
	}
}
