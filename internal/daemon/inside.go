package daemon

import (
	"maps"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// inside is what operators see of the owner after a pass: nothing of it is changed any
// more. What they are shown is made of it when they ask, on their time.
type inside struct {
	view     *telemetry.View
	history  *history.Snapshot
	settings settings
	plan     pools.Plan
	input    pools.Input // that of plan
	targets  []cgroup.Target
	planned  bool
	deferred []cgroup.Deferred
	faults   map[cgroup.Path]error
	problems []pools.Problem
	began    time.Time
	config   error // why a newer one is not in force
	observes bool
	owed     int
}

func (l *loop) publishInside(v *telemetry.View) {
	l.inside.Store(&inside{
		view: v, history: l.chronicle.log.Snapshot(), settings: l.settings, plan: l.status.plan, input: l.status.input, targets: l.status.targets, planned: l.status.planned,
		deferred: l.status.deferred, faults: l.status.faults, problems: l.status.problems, began: l.status.began,
		config: l.status.configErr, observes: l.observes, owed: len(l.status.owed),
	})
}

// observer answers what operators ask. It is called from other goroutines.
type observer struct {
	last    func() *inside                    // that was published; nil before
	kernel  func(cgroup.Path) *inspect.Kernel // what it says of a cgroup
	build   telemetry.Build
	started time.Time
	file    string
	node    string
}

func (l *loop) newObserver(o Options) *observer {
	return &observer{last: l.inside.Load, kernel: func(p cgroup.Path) *inspect.Kernel { return l.kernelOf(p) }, build: o.Build, started: time.Now().UTC(), file: o.ConfigFile, node: o.Environment.NodeName}
}

// History implements control.Inside.
func (o *observer) History() *history.Snapshot { return o.now().history }

// Started implements control.Inside.
func (o *observer) Started() time.Time { return o.started }

// now is the last that was published; empty before.
func (o *observer) now() *inside {
	if in := o.last(); in != nil {
		return in
	}
	return &inside{view: &telemetry.View{}, history: history.New().Snapshot()}
}

// lastWrites is how many writes a status has.
const lastWrites = 10

// Status implements control.Inside.
func (o *observer) Status() *inspect.Status {
	in := o.now()
	s := &inspect.Status{
		Version: inspect.Version, Sequence: in.history.Last(), Time: time.Now().UTC(), Node: o.node,
		Daemon: inspect.Daemon{BuildVersion: o.build.Version, Commit: o.build.Revision, Go: o.build.Go, Started: o.started,
			Mode: string(config.ModeEnforce), Owed: in.owed, Ready: in.view.Ready},
		Config:     o.configOf(in),
		Passes:     inspect.Passes{OK: in.view.Passes[telemetry.OK], Failed: in.view.Passes[telemetry.Failed], Last: in.began.UTC(), LastSuccess: in.view.LastSuccess.UTC()},
		Pools:      in.pools(),
		Containers: in.containers(),
		Sources:    []inspect.Source{},
		Problems:   []inspect.Problem{},
		Writes:     []inspect.Writes{},
		LastWrites: slices.Clip(append([]history.Event{}, in.history.Select(history.Query{Kinds: []history.Kind{history.Wrote, history.Failed}, Limit: lastWrites})...)),
		Topology:   in.settings.topology,
	}
	if in.observes {
		s.Daemon.Mode = string(config.ModeObserve)
	}
	for _, name := range slices.Sorted(maps.Keys(in.view.Sources)) {
		s.Sources = append(s.Sources, inspect.Source{Name: string(name), State: string(in.view.Sources[name])})
	}
	for _, p := range in.problems {
		s.Problems = append(s.Problems, inspect.ProblemOf(p))
	}
	for _, path := range slices.Sorted(maps.Keys(in.faults)) {
		s.Faults = append(s.Faults, inspect.Fault{Cgroup: string(path), Error: in.faults[path].Error()})
	}
	for _, d := range in.deferred {
		s.Waits = append(s.Waits, inspect.Wait{Cgroup: string(d.Path), Property: d.Property, Reason: d.Reason})
	}
	for _, via := range []cgroup.Via{cgroup.File, cgroup.CRI, cgroup.DBus, cgroup.NRI} {
		count := func(r telemetry.Result) uint64 { return in.view.Writes[telemetry.Write{Via: string(via), Result: r}] }
		s.Writes = append(s.Writes, inspect.Writes{Via: string(via), OK: count(telemetry.OK), Failed: count(telemetry.Failed)})
	}
	s.CPUs = inspect.CPUs(in.settings.topology, &in.plan, s.Pools)
	if busy, err := telemetry.Busy(procRoot); err == nil { // without it nothing but the load is missing
		for i := range s.CPUs {
			if c := &s.CPUs[i]; c.Online {
				c.Busy = busy[c.ID]
			}
		}
	}
	return s
}

// configOf is the configuration in force.
func (o *observer) configOf(in *inside) inspect.Config {
	c := inspect.Config{File: o.file, Adapted: in.settings.adapted, Settings: []inspect.Setting{}}
	if in.config != nil {
		c.Error = in.config.Error()
	}
	if in.settings.config == nil {
		return c
	}
	c.Offline = in.settings.offline()
	f := in.settings.config
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
func (in *inside) pools() []inspect.Pool {
	var all []inspect.Pool
	for _, p := range in.view.Pools {
		pool := inspect.Pool{Name: p.Pool, CPUs: p.CPUs}
		if p.Pool == inspect.Management {
			pool.Type = p.Type
		}
		if p.Pool == inspect.Guaranteed {
			pool.Free, pool.FromShared = p.Free, in.settings.pools.FromShared
			pool.Idle, pool.Resting, pool.Parked = in.plan.Idle, in.plan.Resting, in.view.Parked
			for _, a := range in.plan.Assignments {
				pool.Owned = pool.Owned.Union(a.CPUs)
			}
		}
		for _, c := range in.view.Containers {
			if c.PoolName == p.PoolName {
				pool.Containers++
			}
		}
		all = append(all, pool)
	}
	return slices.Clip(append([]inspect.Pool{}, all...))
}

// containers are those of the plan that have not exited, or have CPUs held for them.
func (in *inside) containers() []inspect.Container { return inspect.Containers(&in.plan, in.live()) }

// everybody are all containers and units of the plan, sorted by name.
func (in *inside) everybody() []inspect.Container { return inspect.Everybody(&in.plan, in.live()) }

// live enters what the cgroups say.
func (in *inside) live() func(*inspect.Container) {
	shown := make(map[string]*telemetry.Container, len(in.view.Containers))
	for i := range in.view.Containers {
		c := &in.view.Containers[i]
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
