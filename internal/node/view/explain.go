package view

import (
	"errors"
	"strings"
	"time"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/node/explain"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Bounds of an explanation.
const (
	maxSubjects = 64  // containers of a pod
	maxChanged  = 8   // containers for which changes are tried
	maxExplain  = 100 // events of a container
)

// Files that only explanations show.
const (
	fileEffective     = "cpuset.cpus.effective"
	fileMemsEffective = "cpuset.mems.effective"
)

var errNotPlanned = errors.New("the daemon has made no plan yet; ask again in a moment")

// Explain implements control.Answers. It repeats the decision from the input of the last
// pass, in the caller's goroutine.
func (o *Answers) Explain(name string) (*inspect.Explanation, error) {
	in := o.Now()
	if !in.Planned {
		return nil, errNotPlanned
	}
	all := in.AllContainers()
	found, err := explain.Find(all, name)
	if err != nil {
		return nil, err
	}
	e := &inspect.Explanation{Version: inspect.Version, Time: time.Now().UTC(), Asked: name, Subjects: []inspect.Subject{}}
	var traces map[string]*pools.Trace
	if first := &all[found[0]]; !first.Unit {
		_, traces = pools.Explain(in.Input, first.PodUID)
	}
	for _, i := range found {
		c := &all[i]
		if c.Name == inventory.InfraName && len(found) > 1 && !c.Unit {
			continue // explained only on request
		}
		if len(e.Subjects) < maxSubjects {
			e.Subjects = append(e.Subjects, o.subject(in, c, traces, len(e.Subjects) < maxChanged))
		}
	}
	return e, nil
}

func (o *Answers) subject(in *Snapshot, c *inspect.Container, traces map[string]*pools.Trace, changes bool) inspect.Subject {
	s := inspect.Subject{Container: *c, Problems: []inspect.Problem{}}
	reason := pools.Reason{Code: pools.Code(c.Code), Text: c.Reason}
	if c.Unit {
		s.Rules = explain.UnitRules(reason)
	} else {
		s.Rules = explain.Rules(traces[c.ID], reason)
		in.alternatives(&s, traces[c.ID], changes)
	}
	for _, p := range in.Problems {
		if c.Unit && p.Unit == c.Name || !c.Unit && p.PodUID == c.PodUID && (p.Container == "" || p.Container == c.Name) {
			s.Problems = append(s.Problems, inspect.ProblemOf(p))
		}
	}
	s.Events, s.Earlier = eventsOf(in.History, c)
	in.compare(&s)
	if c.Cgroup != "" {
		s.Kernel = o.kernel(cgroup.Path(c.Cgroup))
	}
	return s
}

// alternatives adds the other places of a container, and the changes that lead there.
func (in *Snapshot) alternatives(s *inspect.Subject, t *pools.Trace, changes bool) {
	at := explain.Placement(&in.Plan, s.Container.ID)
	if at == nil || t == nil {
		return
	}
	own := cpuset.Set{}
	if at.Exclusive {
		own = at.CPUs
	}
	var hinted cpuset.Set
	for i := range in.Input.Pods {
		for _, c := range in.Input.Pods[i].Containers {
			if c.ID == at.ID {
				hinted = c.Nodes
			}
		}
	}
	s.Candidates = explain.Candidates(&in.Input, &in.Plan, t.Want, t.Options, hinted, own)
	if changes {
		s.Changes = explain.Changes(&in.Input, s.Container.PodUID, at)
	}
}

// compare adds the desired state of the cgroup, its fault and its deferred writes.
func (in *Snapshot) compare(s *inspect.Subject) {
	c := &s.Container
	for i := range in.Targets {
		t := &in.Targets[i]
		if c.Cgroup == "" || string(t.Path) != c.Cgroup {
			continue
		}
		s.Wanted = &inspect.Wanted{CPUs: t.CPUs, Mems: t.Mems, Weight: t.Weight, Unlimited: t.Unlimited, Quota: t.Quota, Period: t.Period}
	}
	if err := in.Faults[cgroup.Path(c.Cgroup)]; err != nil && c.Cgroup != "" {
		s.Faults = append(s.Faults, inspect.Fault{Cgroup: c.Cgroup, Error: err.Error()})
	}
	for _, d := range in.Deferred {
		if string(d.Path) == c.Cgroup && c.Cgroup != "" {
			s.Waits = append(s.Waits, inspect.Wait{Cgroup: c.Cgroup, Property: d.Property, Reason: d.Reason})
		}
	}
}

// eventsOf returns the latest events about c and, for a container, about its whole pod. It
// also returns the number of earlier events.
func eventsOf(h *history.Snapshot, c *inspect.Container) (events []history.Event, earlier int) {
	events = []history.Event{}
	for i := range h.Events {
		e := &h.Events[i]
		if c.Unit && e.Unit == c.Name || !c.Unit && c.PodUID != "" && e.PodUID == c.PodUID && (e.Container == c.Name || e.Container == "") {
			events = append(events, *e)
		}
	}
	if earlier = max(len(events)-maxExplain, 0); earlier > 0 {
		events = events[earlier:]
	}
	return events, earlier
}

// kernel reads the present values of a cgroup.
func (o *Answers) kernel(p cgroup.Path) *inspect.Kernel {
	k := &inspect.Kernel{Cgroup: string(p)}
	for file, to := range map[string]*string{
		cgroup.FileCPUs: &k.CPUs, fileEffective: &k.Effective, cgroup.FilePartition: &k.Partition, cgroup.FileMems: &k.Mems,
		fileMemsEffective: &k.MemsEffective, cgroup.FileWeight: &k.Weight, cgroup.FileMax: &k.Max,
	} {
		data, err := o.cgroups.ReadFile(p, file)
		if *to = strings.TrimSpace(string(data)); err != nil && file == fileEffective {
			k.Error = err.Error() // other files are missing without their controller, and on old kernels
		}
	}
	return k
}
