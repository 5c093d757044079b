package view

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cpupoold/cpupoold/internal/explain"
	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/verdict"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
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
	fileMemory        = "memory.max"
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
	e := &inspect.Explanation{Version: inspect.Version, Time: time.Now().UTC(), Asked: name, Subjects: []inspect.Subject{}}
	found, err := explain.Find(all, name)
	if claim := explain.FindClaim(inspect.ClaimsOf(&in.Plan, in.Problems), name); err != nil && claim != nil {
		if found = using(all, claim); len(found) == 0 {
			e.Notes = append(e.Notes, unused(claim))
			return e, nil
		}
	} else if err != nil {
		return nil, err
	}
	d := explain.Decision{Input: &in.Input, Plan: &in.Plan, Problems: in.Problems, Pod: &verdict.Pod{}}
	if first := &all[found[0]]; !first.Unit {
		_, d.Traces = pools.Explain(in.Input, first.PodUID)
		d.Pod = o.facts(in, first.PodUID, all)
	}
	for _, i := range found {
		c := &all[i]
		if c.Name == pools.InfraName && len(found) > 1 && !c.Unit {
			continue // explained only on request
		}
		if len(e.Subjects) < maxSubjects {
			s := d.Subject(c, len(e.Subjects) < maxChanged)
			o.observe(in, &s)
			e.Subjects = append(e.Subjects, s)
		}
	}
	return e, nil
}

func using(all []inspect.Container, claim *inspect.Claim) (found []int) {
	for i := range all {
		if claim.IsUsedBy(&all[i]) {
			found = append(found, i)
		}
	}
	return found
}

// unused states the CPUs of a claim that no container uses.
func unused(c *inspect.Claim) string {
	cpus := "without CPUs"
	if all := c.CPUs.Union(c.Away); !all.IsEmpty() {
		cpus = "with CPUs " + all.String()
	}
	return fmt.Sprintf("no container uses claim %s, %s, of pod %s: %s (%s)", c.Full(), cpus, cmp.Or(c.Pod, c.PodUID), c.Reason, c.Code)
}

// facts returns the facts that the node has about a pod. The kernel has the memory limits of
// containers that run.
func (o *Answers) facts(in *Snapshot, uid string, all []inspect.Container) *verdict.Pod {
	i := slices.IndexFunc(in.Input.Pods, func(p pools.Pod) bool { return p.UID == uid })
	if i < 0 {
		return &verdict.Pod{}
	}
	pod := &in.Input.Pods[i]
	facts := &verdict.Pod{Name: pod.Name, Annotations: pod.Annotations, Names: in.Input.Names}
	for _, p := range in.Input.Pools.Partitions {
		facts.Types = append(facts.Types, p.Type)
	}
	for j := range pod.Containers {
		c := &pod.Containers[j]
		if c.Kind == pools.Infra {
			continue
		}
		limit := int64(verdict.Unknown)
		if at := slices.IndexFunc(all, func(o inspect.Container) bool { return o.ID == c.ID }); at >= 0 && all[at].Cgroup != "" {
			limit = o.memoryLimit(cgroup.Path(all[at].Cgroup))
		}
		facts.Containers = append(facts.Containers, verdict.OnNode(c, limit))
	}
	return facts
}

// memoryLimit returns the memory limit of a cgroup, 0 for none.
func (o *Answers) memoryLimit(p cgroup.Path) int64 {
	data, err := o.cgroups.ReadFile(p, fileMemory)
	text := strings.TrimSpace(string(data))
	if err == nil && text == "max" {
		return 0
	}
	limit, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return verdict.Unknown
	}
	return limit
}

// observe adds the state of the cgroup and the events of a subject.
func (o *Answers) observe(in *Snapshot, s *inspect.Subject) {
	s.Events, s.Earlier = eventsOf(in.History, &s.Container)
	in.compare(s)
	if p := s.Container.Cgroup; p != "" {
		s.Kernel = o.kernel(cgroup.Path(p))
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
		if e.Claim != "" && !slices.Contains(c.Claims, e.Claim) {
			continue // another container uses it
		}
		if c.Unit && e.Unit == c.Name || e.Claim != "" || !c.Unit && c.PodUID != "" && e.PodUID == c.PodUID && (e.Container == c.Name || e.Container == "") {
			events = append(events, *e)
		}
	}
	if earlier = max(len(events)-maxExplain, 0); earlier > 0 {
		events = events[earlier:]
	}
	return events, earlier
}

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
