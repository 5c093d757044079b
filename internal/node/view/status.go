package view

import (
	"maps"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/node/kernelfs"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// Answers makes documents of the latest snapshot. Any goroutine may call its methods.
type Answers struct {
	latest  func() *Snapshot // nil before the first snapshot
	cgroups *cgroup.FS
	build   telemetry.Build
	started time.Time
	file    string // of the configuration
	node    string
}

// NewAnswers returns the answers of a daemon that starts now. Latest returns the latest
// snapshot, or nil before the first. File is the configuration's file, node the node's name.
func NewAnswers(latest func() *Snapshot, cgroups *cgroup.FS, build telemetry.Build, file, node string) *Answers {
	return &Answers{latest: latest, cgroups: cgroups, build: build, started: time.Now().UTC(), file: file, node: node}
}

// Started implements control.Answers.
func (o *Answers) Started() time.Time { return o.started }

// History implements control.Answers.
func (o *Answers) History() *history.Snapshot { return o.Now().History }

// Now returns the latest snapshot, or an empty one before the first.
func (o *Answers) Now() *Snapshot {
	if in := o.latest(); in != nil {
		return in
	}
	return &Snapshot{View: &telemetry.View{}, History: history.New().Snapshot()}
}

const lastWrites = 10

// Status implements control.Answers.
func (o *Answers) Status() *inspect.Status {
	in := o.Now()
	s := &inspect.Status{
		Version: inspect.Version, Sequence: in.History.Last(), Time: time.Now().UTC(), Node: o.node,
		Daemon: inspect.Daemon{BuildVersion: o.build.Version, Commit: o.build.Revision, Go: o.build.Go, Started: o.started,
			Mode: string(config.ModeEnforce), Owed: in.Owed, Ready: in.View.Ready},
		Config: o.configOf(in),
		Passes: inspect.Passes{
			OK: in.View.Passes[telemetry.OK], Failed: in.View.Passes[telemetry.Failed], Unavailable: in.View.Passes[telemetry.Unavailable],
			Last: in.Began.UTC(), LastSuccess: in.View.LastSuccess.UTC(),
		},
		Pools:      in.pools(),
		Containers: inspect.Containers(&in.Plan, in.live()),
		Auxiliary:  in.Auxiliary,
		System:     in.System,
		Sources:    []inspect.Source{},
		Problems:   []inspect.Problem{},
		Writes:     []inspect.Writes{},
		LastWrites: slices.Clip(append([]history.Event{}, in.History.Select(history.Query{Kinds: []history.Kind{history.Wrote, history.Failed}, Limit: lastWrites})...)),
		Topology:   in.Settings.Topology,
	}
	s.Devices, s.Claims = in.devices(), inspect.ClaimsOf(&in.Plan, in.Problems)
	s.Audit = in.audit()
	if r := in.View.Room; r != nil {
		s.Room = &inspect.Room{Pool: r.Pool, NUMANode: r.Node, L3: r.L3, WholeCores: r.WholeCores}
	}
	for _, way := range slices.Sorted(maps.Keys(in.View.Placements)) {
		p := in.View.Placements[way]
		s.Placements = append(s.Placements, inspect.Placement{Way: string(way), Containers: p.Elapsed.Count, Seconds: p.Elapsed.Sum, CPUSeconds: p.Used.Sum})
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
	if busy, err := telemetry.Busy(kernelfs.ProcRoot); err == nil { // on an error only the load is missing
		for i := range s.CPUs {
			if c := &s.CPUs[i]; c.Online {
				c.Busy = busy[c.ID]
			}
		}
	}
	return s
}

func (o *Answers) configOf(in *Snapshot) inspect.Config {
	c := inspect.Config{File: o.file, Adapted: in.Settings.Adapted, Settings: []inspect.Setting{}}
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
	add("guaranteed.claims.cpus", g.Claims.CPUs.String())
	if g.Claims.Lend {
		add("guaranteed.claims.idle", "shared")
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
