package view

import (
	"maps"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Snapshot is what operators see of the owner after a pass: nothing of it is changed any
// more. What they are shown is made of it when they ask, on their time.
type Snapshot struct {
	View     *telemetry.View
	History  *history.Snapshot
	Settings desired.Settings
	Plan     pools.Plan
	Input    pools.Input // that of plan
	Targets  []cgroup.Target
	Planned  bool
	Deferred []cgroup.Deferred
	Faults   map[cgroup.Path]error
	Problems []pools.Problem
	Began    time.Time
	Config   error // why a newer one is not in force
	Observes bool
	Owed     int
}

// Answers answers what operators ask. It is called from other goroutines.
type Answers struct {
	Last         func() *Snapshot                  // that was published; nil before
	Kernel       func(cgroup.Path) *inspect.Kernel // what it says of a cgroup
	Build        telemetry.Build
	StartedValue time.Time
	File         string
	Node         string
}

// History implements control.Inside.
func (o *Answers) History() *history.Snapshot { return o.Now().History }

// Started implements control.Inside.
func (o *Answers) Started() time.Time { return o.StartedValue }

// Now is the last that was published; empty before.
func (o *Answers) Now() *Snapshot {
	if in := o.Last(); in != nil {
		return in
	}
	return &Snapshot{View: &telemetry.View{}, History: history.New().Snapshot()}
}

// lastWrites is how many writes a status has.
const lastWrites = 10

// Status implements control.Inside.
func (o *Answers) Status() *inspect.Status {
	in := o.Now()
	s := &inspect.Status{
		Version: inspect.Version, Sequence: in.History.Last(), Time: time.Now().UTC(), Node: o.Node,
		Daemon: inspect.Daemon{BuildVersion: o.Build.Version, Commit: o.Build.Revision, Go: o.Build.Go, Started: o.StartedValue,
			Mode: string(config.ModeEnforce), Owed: in.Owed, Ready: in.View.Ready},
		Config:     o.configOf(in),
		Passes:     inspect.Passes{OK: in.View.Passes[telemetry.OK], Failed: in.View.Passes[telemetry.Failed], Last: in.Began.UTC(), LastSuccess: in.View.LastSuccess.UTC()},
		Pools:      in.pools(),
		Containers: in.containers(),
		Sources:    []inspect.Source{},
		Problems:   []inspect.Problem{},
		Writes:     []inspect.Writes{},
		LastWrites: slices.Clip(append([]history.Event{}, in.History.Select(history.Query{Kinds: []history.Kind{history.Wrote, history.Failed}, Limit: lastWrites})...)),
		Topology:   in.Settings.Topology,
	}
	if in.Observes {
		s.Daemon.Mode = string(config.ModeObserve)
	}
	for _, name := range slices.Sorted(maps.Keys(in.View.Sources)) {
		s.Sources = append(s.Sources, inspect.Source{Name: string(name), State: string(in.View.Sources[name])})
	}
	for _, p := range in.Problems {
		s.Problems = append(s.Problems, inspect.ProblemOf(p))
	}
	for _, path := range slices.Sorted(maps.Keys(in.Faults)) {
		s.Faults = append(s.Faults, inspect.Fault{Cgroup: string(path), Error: in.Faults[path].Error()})
	}
	for _, d := range in.Deferred {
		s.Waits = append(s.Waits, inspect.Wait{Cgroup: string(d.Path), Property: d.Property, Reason: d.Reason})
	}
	for _, via := range []cgroup.Via{cgroup.File, cgroup.CRI, cgroup.DBus, cgroup.NRI} {
		count := func(r telemetry.Result) uint64 { return in.View.Writes[telemetry.Write{Via: string(via), Result: r}] }
		s.Writes = append(s.Writes, inspect.Writes{Via: string(via), OK: count(telemetry.OK), Failed: count(telemetry.Failed)})
	}
	s.CPUs = inspect.CPUs(in.Settings.Topology, &in.Plan, s.Pools)
	if busy, err := telemetry.Busy(hostenv.ProcRoot); err == nil { // without it nothing but the load is missing
		for i := range s.CPUs {
			if c := &s.CPUs[i]; c.Online {
				c.Busy = busy[c.ID]
			}
		}
	}
	return s
}

// configOf is the configuration in force.
func (o *Answers) configOf(in *Snapshot) inspect.Config {
	c := inspect.Config{File: o.File, Adapted: in.Settings.Adapted, Settings: []inspect.Setting{}}
	if in.Config != nil {
		c.Error = in.Config.Error()
	}
	if in.Settings.Config == nil {
		return c
	}
	c.Offline = in.Settings.Offline()
	f := in.Settings.Config
	add := func(key, value string) {
		if value != "" {
			c.Settings = append(c.Settings, inspect.Setting{Key: key, Value: value})
		}
	}
	add("mode", string(f.Mode))
	for _, p := range f.Pools.Partitions {
		cpus := p.CPUs.String()
		if p.All {
			cpus = "all"
		}
		add("partitions."+p.Type, cpus)
	}
	if f.Pools.Shared != nil {
		add("shared.cpus", f.Pools.Shared.String())
	}
	g := &f.Pools.Guaranteed
	add("guaranteed.cpus", g.CPUs.String())
	if g.FromShared {
		add("guaranteed.from", "shared")
	}
	if g.Kubelet {
		add("guaranteed.exclusive", "kubelet")
	}
	add("guaranteed.isolation", string(f.Isolation))
	add("guaranteed.onRefusal", string(f.OnRefusal))
	add("resyncPeriod", f.ResyncPeriod.String())
	if f.Quiet > 0 {
		add("quiet", f.Quiet.String())
	}
	add("listenAddress", f.ListenAddress)
	add("stateDir", f.StateDir)
	return c
}

// pools are the pools as they are now.
func (in *Snapshot) pools() []inspect.Pool {
	var all []inspect.Pool
	for _, p := range in.View.Pools {
		pool := inspect.Pool{Name: p.Pool, CPUs: p.CPUs}
		if p.Pool == inspect.Management {
			pool.Type = p.Type
		}
		if p.Pool == inspect.Guaranteed {
			pool.Free, pool.FromShared = p.Free, in.Settings.Pools.FromShared
			pool.Idle, pool.Resting, pool.Parked = in.Plan.Idle, in.Plan.Resting, in.View.Parked
			for _, a := range in.Plan.Assignments {
				pool.Owned = pool.Owned.Union(a.CPUs)
			}
		}
		for _, c := range in.View.Containers {
			if c.PoolName == p.PoolName {
				pool.Containers++
			}
		}
		all = append(all, pool)
	}
	return slices.Clip(append([]inspect.Pool{}, all...))
}

// containers are those of the plan that have not exited, or have CPUs held for them.
func (in *Snapshot) containers() []inspect.Container { return inspect.Containers(&in.Plan, in.live()) }

// AllContainers are all containers and units of the plan, sorted by name.
func (in *Snapshot) AllContainers() []inspect.Container {
	return inspect.Everybody(&in.Plan, in.live())
}

// live enters what the cgroups say.
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
