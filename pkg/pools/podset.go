package pools

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// podSet divides the CPUs of a pod with pod-level resources. The pod demands them as one
// owner. So the options hold for all of them together, and not for each part.
type podSet struct {
	parts  []demand // demands of containers with exclusive CPUs, sorted by name. They take from the pod's CPUs only
	shared bool     // a live container shares the rest
	// rest are the CPUs that no part has. On pool the other containers run: on the rest, and on
	// the CPUs that parts hold for the restart of their container.
	rest, pool cpuset.Set
}

// demand returns the demand of a pod on its CPUs. previous are the assignments of the pod.
func (l *podLevel) demand(pod int, p *Pod, verdicts []verdict, previous []Assignment) demand {
	c := demand{key: Key{PodUID: p.UID}, pod: pod, live: true, want: l.total, createdAt: sandboxAge(p), set: &podSet{}}
	ages, runs := make(map[string]int64, len(p.Containers)), make(map[string]bool, len(p.Containers))
	for i, next := p.newest(0); i >= 0; i, next = p.newest(next) {
		ctr, v := &p.Containers[i], verdicts[i]
		ages[ctr.Name], runs[ctr.Name] = ctr.CreatedAt, ctr.State != Exited
		if c.createdAt == 0 {
			c.createdAt = ctr.CreatedAt
		}
		live := ctr.State != Exited
		switch {
		case v.pool != Guaranteed:
			continue
		case v.podPool:
			c.set.shared = c.set.shared || live
		default:
			c.set.parts = append(c.set.parts, newDemand(pod, Key{PodUID: p.UID, Container: ctr.Name}, recorded(previous, ctr.Name)).madeBy(ctr, v))
		}
		if live {
			c.waiting, c.nodes = c.waiting || ctr.Waiting, c.nodes.Union(ctr.Nodes)
		}
	}
	l.inherit(&c, previous, ages, runs)
	return c
}

// recorded returns the assignments of a container of a pod, or of a unit.
func recorded(all []Assignment, name string) []Assignment {
	i, _ := slices.BinarySearchFunc(all, name, func(a Assignment, name string) int { return cmp.Compare(a.Container, name) })
	of, _ := cut(all[i:], func(a *Assignment) bool { return a.Container == name })
	return of
}

// inherit gives a pod the CPUs that were recorded for it and for its containers. Live parts come
// first, then other live containers, the pod, and exited containers, the older first. Without a
// journal, the CPUs of an exited container come from a record of the runtime, which can be outdated.
// Assignments after the pod has its total have no effect: earlier builds gave the total of the pod to
// each container.
func (l *podLevel) inherit(c *demand, previous []Assignment, ages map[string]int64, runs map[string]bool) {
	rank := func(name string) int {
		i := slices.IndexFunc(c.set.parts, func(part demand) bool { return part.key.Container == name })
		switch {
		case i >= 0 && c.set.parts[i].live:
			return 0
		case runs[name]:
			return 1
		case name == "":
			return 2
		case i >= 0:
			return 3
		}
		return 4
	}
	previous = slices.Clone(previous)
	slices.SortStableFunc(previous, func(a, b Assignment) int {
		a1, b1 := a.Container, b.Container
		return cmp.Or(cmp.Compare(rank(a1), rank(b1)), cmp.Compare(ages[a1], ages[b1]), cmp.Compare(a1, b1))
	})
	for _, a := range previous {
		if rank(a.Container) > 0 && c.cpus.Len()+c.away.Len() >= l.total {
			break
		}
		c.had(a)
	}
}

// fixed returns the CPUs of live parts. The pod gives back others first.
func (s *podSet) fixed() cpuset.Set {
	var all cpuset.Set
	if s != nil {
		for i := range s.parts {
			if s.parts[i].live {
				all = all.Union(s.parts[i].cpus)
			}
		}
	}
	return all
}

// divide gives the parts their CPUs. Each part keeps its CPUs. Then live parts get what
// they lack, the older first: from the rest, and from the CPUs of exited containers. At
// least one CPU remains for containers that share the rest.
func (s *podSet) divide(m *allocate.Machine, c *demand) {
	s.rest = c.cpus
	order := byAge(s.parts)
	for _, i := range order {
		part := &s.parts[i]
		part.cpus, part.away, part.unread = part.cpus.Intersection(s.rest), cpuset.Set{}, c.unread
		part.guess()
		if part.live && part.cpus.Len() > part.want {
			part.cpus, _ = take(m.Supply(part.cpus), allocate.Request{CPUs: part.want, Nodes: part.nodes})
		}
		s.rest = s.rest.Difference(part.cpus)
	}
	for _, i := range order {
		if s.parts[i].lacks() {
			s.grow(m, &s.parts[i])
		}
	}
	s.pool = s.rest.Union(leftBy(s.parts))
	for i := range s.parts {
		if part := &s.parts[i]; part.lacks() && part.refused == nil {
			part.refused = s.refuse(c, part)
		}
	}
}

// grow adds missing CPUs to a part. A part without CPUs gets all that it lacks, or none.
func (s *podSet) grow(m *allocate.Machine, part *demand) {
	left := leftBy(s.parts)
	most, lack := s.rest.Len()+left.Len(), part.want-part.cpus.Len()
	if s.shared {
		most--
	}
	n := min(lack, max(most, 0))
	if n == 0 || n < lack && part.cpus.IsEmpty() {
		return
	}
	from := s.rest
	if from.Len() < n {
		from = from.Union(left)
	}
	got, refusal := take(m.Supply(from), allocate.Request{CPUs: n, Have: part.cpus, Nodes: part.nodes})
	if refusal != nil {
		part.refused = refusal
		return
	}
	releaseInactive(s.parts, got)
	part.cpus, s.rest = part.cpus.Union(got), s.rest.Difference(got)
}

// PodPoolEmpty is a code of refusals (allocate.Refusal): the containers of a pod with
// pod-level resources need more than its total.
const PodPoolEmpty = "PodPoolEmpty"

// refuse returns the reason why a container lacks CPUs of its pod.
// part is its demand, nil for a container that shares the rest. A pod without CPUs has its own
// reason.
func (s *podSet) refuse(c, part *demand) *allocate.Refusal {
	if c.cpus.IsEmpty() && c.refused != nil {
		return c.refused
	}
	lack, others := 1, s.fixed()
	if part != nil {
		lack, others = part.want-part.cpus.Len(), others.Difference(part.cpus)
	}
	has := "none"
	if n := others.Len(); n > 0 {
		has = strconv.Itoa(n)
	}
	why := fmt.Sprintf("its pod has %s, and other containers of the pod have %s of them", count(c.cpus.Len(), "CPU"), has)
	if s.shared {
		why += "; the containers that share the rest need at least 1"
	}
	return &allocate.Refusal{Asked: lack, Free: s.rest.Len(), Code: PodPoolEmpty, Why: why + "; raise the CPUs of the pod, or lower the CPUs of its containers"}
}

// inPodPool places a container that shares the CPUs of its pod.
func (b *placer) inPodPool(p *Pod, at *Placement, c *demand, v *verdict) {
	if at.State != Exited && !c.set.pool.IsEmpty() {
		at.Pool, at.CPUs, at.Reason = Guaranteed, c.set.pool, v.reason
		return
	}
	at.Pool, at.CPUs = Shared, b.ofShared
	switch {
	case c.unread:
		at.Reason = v.reason
	case at.State == Exited:
		at.Reason = Reason{CodeExited, "has exited and holds no CPUs"}
	case c.waiting && c.cpus.IsEmpty():
		at.Reason = Reason{CodeWaiting, v.reason.Text + ", as soon as it is known where its devices and memory are"}
	default:
		at.Refused = c.set.refuse(c, nil)
		at.Reason = Reason{CodeRefused, fmt.Sprintf("%s, but %s; runs in the shared pool until some CPUs are free", v.reason.Text, at.Refused.Why)}
		if n := len(b.problems); n == 0 || b.problems[n-1].PodUID != p.UID || b.problems[n-1].Container != at.Name {
			b.report(p, at.Name, at.Reason) // once for all instances of a container
		}
	}
}

// hasQuotaOf reports whether a container has the quota of its pod, n CPUs, or more. Then the
// container has no own limit. After a resize, a runtime records the removed quota, -1.
func hasQuotaOf(ctr Resources, n int) bool {
	milli, known := ctr.quotaMilli()
	return ctr.Quota < 0 || known && milli >= int64(n)*1000
}
