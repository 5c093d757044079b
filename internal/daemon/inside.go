package daemon

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
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
	loop    *loop
	build   telemetry.Build
	started time.Time
	file    string
	node    string
}

func (l *loop) newObserver(o Options) *observer {
	return &observer{loop: l, build: o.Build, started: time.Now().UTC(), file: o.ConfigFile, node: o.Environment.NodeName}
}

// History implements control.Inside.
func (o *observer) History() *history.Snapshot { return o.now().history }

// Started implements control.Inside.
func (o *observer) Started() time.Time { return o.started }

// now is the last that was published; empty before.
func (o *observer) now() *inside {
	if in := o.loop.inside.Load(); in != nil {
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
		s.Problems = append(s.Problems, shownProblem(p))
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
	s.CPUs = in.cpus(s.Pools)
	if busy, err := telemetry.Busy(procRoot); err == nil { // without it nothing but the load is missing
		for i := range s.CPUs {
			if c := &s.CPUs[i]; c.Online {
				c.Busy = busy[c.ID]
			}
		}
	}
	return s
}

func shownProblem(p pools.Problem) inspect.Problem {
	return inspect.Problem{Pod: p.Pod, PodUID: p.PodUID, Container: p.Container, Unit: p.Unit, Code: string(p.Code), Text: p.Text}
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
func (in *inside) containers() []inspect.Container {
	return slices.DeleteFunc(in.everybody(), func(c inspect.Container) bool {
		return c.Name == infraName && !c.Unit || c.State == stateName(pools.Exited) && !c.Exclusive
	})
}

// everybody are all containers and units of the plan, sorted by name.
func (in *inside) everybody() []inspect.Container {
	shown := make(map[string]*telemetry.Container, len(in.view.Containers))
	for i := range in.view.Containers {
		c := &in.view.Containers[i]
		if c.Unit {
			shown[c.Name] = c
		} else {
			shown[c.ID] = c
		}
	}
	all := []inspect.Container{}
	for i := range in.plan.Pods {
		pod := &in.plan.Pods[i]
		for j := range pod.Containers {
			at := &pod.Containers[j]
			c := inspect.Container{Namespace: pod.Namespace, Pod: pod.Name, PodUID: pod.UID, Name: at.Name, ID: at.ID, State: stateName(at.State),
				Pool: string(at.Pool), Type: at.Type, CPUs: at.CPUs, Exclusive: at.Exclusive, Mixed: at.Mixed,
				Code: string(at.Reason.Code), Reason: at.Reason.Text, Refused: at.Refused != nil}
			if v := shown[at.ID]; v != nil {
				c.Mode, c.Cgroup = v.Isolation, v.Cgroup
			}
			all = append(all, c)
		}
	}
	for i := range in.plan.Units {
		u := &in.plan.Units[i]
		c := inspect.Container{Unit: true, Name: u.Name, Pool: string(u.Pool), Type: u.Type, CPUs: u.CPUs, Exclusive: u.Exclusive,
			Code: string(u.Reason.Code), Reason: u.Reason.Text, Refused: u.Refused != nil}
		if v := shown[u.Name]; v != nil {
			c.Mode, c.Cgroup = v.Isolation, v.Cgroup
		}
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b inspect.Container) int { return strings.Compare(a.Full(), b.Full()) })
	return all
}

func stateName(s pools.ContainerState) string {
	switch s {
	case pools.Created:
		return "created"
	case pools.Exited:
		return "exited"
	}
	return "running"
}

// cpus says whose each CPU is.
func (in *inside) cpus(all []inspect.Pool) []inspect.CPU {
	out := []inspect.CPU{}
	t := in.settings.topology
	if t == nil {
		return out
	}
	owners, reserved := in.owners()
	for id := range t.Present.Union(t.Online).All() {
		c := inspect.CPU{ID: id, Core: -1, L3: -1, Die: -1, Package: -1, Node: -1, Use: "offline"}
		if at, ok := t.CPU(id); ok {
			c.Online, c.Use = true, "none"
			c.Core, c.L3, c.Die = t.Cores[at.Core].ID, t.L3s[at.L3].ID, t.Dies[at.Die].ID
			c.Package, c.Node = t.Packages[at.Package].ID, t.Nodes[at.Node].ID
			for i := range all {
				all[i].Claim(&c)
			}
		}
		if owner, ok := owners[id]; ok {
			c.Owner = owner
			if c.Online {
				if c.Use = "owned"; reserved.Contains(id) {
					c.Use = "reserved"
				}
			}
		}
		out = append(out, c)
	}
	return out
}

// owners says who has each CPU, and which of them are reserved for pods.
func (in *inside) owners() (owners map[int]string, reserved cpuset.Set) {
	names := make(map[string]string, len(in.plan.Pods))
	for i := range in.plan.Pods {
		names[in.plan.Pods[i].UID] = in.plan.Pods[i].Namespace + "/" + in.plan.Pods[i].Name
	}
	owners = make(map[int]string)
	for _, a := range in.plan.Assignments {
		name := a.Key.Container
		if a.Key.PodUID != "" {
			if name = names[a.Key.PodUID]; a.Key.Container != "" {
				name += "/" + a.Key.Container
			} else {
				reserved = reserved.Union(a.CPUs)
			}
		}
		for id := range a.CPUs.Union(a.Away).All() {
			owners[id] = name
		}
	}
	return owners, reserved
}
