package pools

import (
	"cmp"
	"maps"
	"reflect"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Build makes the plan for a node. It is a function of in alone: the order of
// Pods, Containers and Previous does not matter, and a plan's Assignments given
// as the next Previous change nothing.
func Build(in Input) Plan { return decide(in, nil) }

// decide is Build, with notes.
func decide(in Input, notes *notebook) Plan {
	pods := present(in.Pods)
	if in.Pools.Kubelet {
		pods = leaveToKubelet(&in, pods)
	}
	kept := keptWith(pods, in.Previous)
	for {
		plan := build(in, pods, kept, notes)
		if kept.IsEmpty() {
			return plan
		}
		left := kept.Intersection(stillHeld(in.Previous, plan.Assignments))
		if left.Equal(kept) {
			return plan
		}
		kept = left // other CPUs belong to the other manager
	}
}

// build is Build, with the CPUs of foreign containers that owners keep.
func build(in Input, pods []Pod, kept cpuset.Set, notes *notebook) Plan {
	plan := Plan{Pods: make([]PodPlan, 0, len(pods))}
	plan.Theirs, plan.TheirsAlone = theirs(&in, pods, kept)
	took := kubeletTook(&in, pods, &plan)
	in.Pools = in.Pools.without(plan.Theirs, plan.TheirsAlone)
	needed := in.leaveClaims()
	var claimed []Assignment
	var unmet []Problem
	plan.Claims, claimed, unmet = in.claims(needed)
	plan.Free = in.Pools.Guaranteed
	c := classifier{in: &in, notes: notes}
	classes := c.classify(pods)

	var assigned []demand
	if in.Pools.exclusive() || len(in.Pools.Units) > 0 {
		assigned = demands(&in.Pools, pods, classes, in.Previous)
		plan.Free, plan.Idle, plan.Problems = assign(in.Machine, &in.Pools, pods, assigned)
		for i := range assigned {
			if c := &assigned[i]; c.set != nil {
				c.set.divide(in.Machine, c)
			}
		}
	}
	plan.Resting = resting(&in, plan.Free, assigned)
	placer := newPlacer(&in, &plan, countContainers(pods))
	plan.Shared = placer.ofShared
	assignments := make([]Assignment, 0, len(assigned))

	var of []demand
	of, assigned = cut(assigned, func(c *demand) bool { return c.isUnit() })
	plan.Units = placer.units(of)
	assignments = appendAssignments(assignments, of, nil)
	for i := range pods {
		of, assigned = cut(assigned, func(c *demand) bool { return c.pod == i })
		plan.Pods = append(plan.Pods, placer.pod(&pods[i], classes[i], of))
		assignments = appendAssignments(assignments, of, classes[i].level)
	}
	if assignments = append(assignments, claimed...); len(assignments) > 0 {
		plan.Assignments = assignments
	}
	plan.Problems = slices.Concat(plan.Problems, c.problems, placer.problems, overlaps(pods, &plan), took, unmet)
	slices.SortFunc(plan.Problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.PodUID, b.PodUID), cmp.Compare(a.Container, b.Container),
			cmp.Compare(a.Unit, b.Unit), cmp.Compare(a.Claim, b.Claim), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Text, b.Text))
	})
	return plan
}

// present returns the pods that are not gone, sorted, with their containers
// sorted. Of pods with the same UID the first counts, and has the containers of
// all: such is a pod whose sandbox is being replaced.
func present(in []Pod) []Pod {
	pods := make([]Pod, 0, len(in))
	for _, p := range in {
		if !p.Gone {
			pods = append(pods, p)
		}
	}
	if !areSorted(pods, comparePods) {
		slices.SortStableFunc(pods, func(a, b Pod) int { return comparePods(&a, &b) })
	}
	n := 0
	for i := range pods {
		if i > 0 && pods[i].UID == pods[n-1].UID {
			pods[n-1].Containers = slices.Concat(pods[n-1].Containers, pods[i].Containers)
			continue
		}
		pods[n] = pods[i]
		n++
	}
	var room []Container // one piece of memory for all copies
	for i := range pods[:n] {
		p := &pods[i]
		if areSorted(p.Containers, compareContainers) {
			continue
		}
		if room == nil {
			room = make([]Container, 0, countContainers(pods[i:n]))
		}
		first := len(room)
		room = append(room, p.Containers...)
		p.Containers = room[first:len(room):len(room)]
		slices.SortFunc(p.Containers, CompareContainers)
	}
	return pods[:n]
}

// areSorted is slices.IsSortedFunc without a copy of each pod and container.
func areSorted[E any](all []E, compare func(a, b *E) int) bool {
	for i := 1; i < len(all); i++ {
		if compare(&all[i-1], &all[i]) > 0 {
			return false
		}
	}
	return true
}

func comparePods(a, b *Pod) int {
	if byUID := cmp.Compare(a.UID, b.UID); byUID != 0 {
		return byUID
	}
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// CompareContainers is the order in which the containers of a pod are taken, the pause
// container first. It copies its arguments.
func CompareContainers(a, b Container) int { return compareContainers(&a, &b) }

func compareContainers(a, b *Container) int {
	if byName := cmp.Or(cmp.Compare(b.Kind, a.Kind), cmp.Compare(a.Name, b.Name)); byName != 0 {
		return byName
	}
	return cmp.Or(cmp.Compare(a.CreatedAt, b.CreatedAt), cmp.Compare(a.ID, b.ID))
}

type class struct {
	verdicts  []verdict  // in the order of the containers
	partition *Partition // nil for ordinary pods
	// options are how CPUs for the pod's containers are chosen; nil for pods whose
	// containers get no exclusive CPUs.
	options *allocate.Options
	level   *podLevel // set for a pod with pod-level resources
	claims  bool      // the pod has ResourceClaims, and reserves no CPUs
}

func (c *classifier) classify(pods []Pod) []class {
	classes := make([]class, len(pods))
	c.haveSharers = slices.ContainsFunc(c.in.Previous, func(a Assignment) bool { return len(a.Sharers) > 0 })
	room := make([]verdict, countContainers(pods))
	for i := range pods {
		p, to := &pods[i], &classes[i]
		to.verdicts, room = room[:len(p.Containers)], room[len(p.Containers):]
		if to.claims = c.in.hasClaims(p.UID); to.claims {
			c.claiming(p, to)
		} else {
			c.pod(p, to)
		}
	}
	return classes
}

// pod classifies a pod and its containers. to has room for their verdicts.
func (c *classifier) pod(p *Pod, to *class) {
	if p.Unread {
		c.unread(p, to)
	}
	if p.Unread || isForeign(p) && !c.in.Pools.Kubelet {
		c.foreign(p, to.verdicts)
		c.notes.class(c.in.Names, p, to, false, true, nil)
		return
	}
	before := len(c.problems)
	partition, managed := c.partition(p)
	asked := c.problems[before:]
	if managed {
		to.partition = partition
		c.managed(p, partition.Type, to.verdicts)
		c.foreign(p, to.verdicts)
		c.notes.class(c.in.Names, p, to, true, false, asked)
		return
	}
	for j := range p.Containers {
		to.verdicts[j] = c.ordinary(p, &p.Containers[j])
	}
	c.foreign(p, to.verdicts)
	if p.QoS == QoSGuaranteed && p.UID != "" && c.in.Pools.exclusive() {
		to.options = c.options(p)
		to.level = c.podLevel(p, to.verdicts)
		c.checkSwitches(p)
		c.checkMixed(p)
	}
	c.checkOffered(p, to.verdicts)
	c.notes.class(c.in.Names, p, to, false, false, asked)
}

// unread classifies a pod with unknown status: each of its containers may have exclusive
// CPUs. Problems of its annotations are reported when its status is known.
func (c *classifier) unread(p *Pod, to *class) {
	const why = "the status of the pod could not be read"
	for i := range p.Containers {
		to.verdicts[i] = shared(CodeUnread, why)
		if ctr := &p.Containers[i]; ctr.Kind == App && ctr.Name != "" {
			to.verdicts[i].pool, to.verdicts[i].atLeast = Guaranteed, true
			to.verdicts[i].mixed = c.mixes(p, ctr.Name)
		}
	}
	if p.UID != "" && c.in.Pools.exclusive() {
		to.options = (&classifier{in: c.in}).options(p)
		to.level = c.unreadLevel(p, to.verdicts)
	}
}

func countContainers(pods []Pod) int {
	n := 0
	for i := range pods {
		n += len(pods[i].Containers)
	}
	return n
}

// cut divides a list after the first elements for which is reports true.
func cut[E any](all []E, is func(*E) bool) (first, rest []E) {
	n := 0
	for n < len(all) && is(&all[n]) {
		n++
	}
	return all[:n], all[n:]
}

// appendAssignments appends the final CPUs of the demands of one pod, or of all units.
func appendAssignments(all []Assignment, demands []demand, level *podLevel) []Assignment {
	if level != nil && len(level.sharers) > 0 {
		all = append(all, Assignment{Key: Key{PodUID: level.uid}, Sharers: level.sharers, Owners: level.owners, Total: level.total})
	}
	for i := range demands {
		c := &demands[i]
		if c.set == nil {
			all = appendAssignment(all, Assignment{Key: c.key, CPUs: c.cpus, Away: c.away, Part: c.part})
			continue
		}
		all = appendAssignment(all, Assignment{Key: c.key, CPUs: c.set.rest, Away: c.away})
		for j := range c.set.parts {
			all = appendAssignment(all, Assignment{Key: c.set.parts[j].key, CPUs: c.set.parts[j].cpus})
		}
	}
	return all
}

// appendAssignment appends a if it has CPUs. The assignment before it can have the same key, and
// only sharers.
func appendAssignment(all []Assignment, a Assignment) []Assignment {
	if a.CPUs.IsEmpty() && a.Away.IsEmpty() {
		return all
	}
	if n := len(all); n > 0 && all[n-1].Key == a.Key {
		all[n-1].CPUs, all[n-1].Away = a.CPUs, a.Away
		return all
	}
	return append(all, a)
}

// resting returns the free CPUs that stay out of the shared pool.
func resting(in *Input, free cpuset.Set, assigned []demand) cpuset.Set {
	owned := slices.ContainsFunc(assigned, func(c demand) bool { return !c.cpus.IsEmpty() })
	if !in.Pools.FromShared || !owned {
		return cpuset.Set{}
	}
	shared := in.Pools.Shared.Difference(in.Pools.Guaranteed.Difference(free))
	return in.Resting.Intersection(free).Take(max(shared.Len()-in.Pools.floor(), 0))
}

// Planner makes plans as [Build] does, and gives the last one again while its input is the
// same, as it is after nearly all that happens on a node. Neither a plan nor an input that
// it was given may be changed afterwards. It is for one goroutine; the zero value has no
// plan yet.
type Planner struct {
	in   Input
	plan Plan
	made bool
}

// Build is [Build].
func (p *Planner) Build(in Input) Plan {
	if !p.made || !sameInput(&p.in, &in) {
		p.in, p.plan, p.made = in, Build(in), true
	}
	return p.plan
}

// sameInput reports whether two inputs are equal, and so have the same plan. Rights of
// namespaces are not compared: if they have an effect, each plan is computed.
func sameInput(a, b *Input) bool {
	return !a.Namespaces.Asked && !b.Namespaces.Asked &&
		a.Machine == b.Machine && a.Names == b.Names && a.Partitions == b.Partitions && a.Interrupts == b.Interrupts &&
		a.StaticPods.All == b.StaticPods.All && slices.Equal(a.StaticPods.Namespaces, b.StaticPods.Namespaces) &&
		a.Resting.Equal(b.Resting) && slices.EqualFunc(a.Claims, b.Claims, Claim.Equal) &&
		slices.EqualFunc(a.Previous, b.Previous, Assignment.Equal) && slices.EqualFunc(a.Held, b.Held, Assignment.Equal) &&
		samePools(&a.Pools, &b.Pools) && samePods(a.Pods, b.Pods)
}

func samePools(a, b *Pools) bool {
	return a.FromShared == b.FromShared && a.Floor == b.Floor && a.Kubelet == b.Kubelet && a.Options == b.Options &&
		a.BindMemory == b.BindMemory && a.Infra == b.Infra && a.PodLevel == b.PodLevel &&
		a.Shared.Equal(b.Shared) && a.Guaranteed.Equal(b.Guaranteed) && a.Offline.Equal(b.Offline) && a.Away.Equal(b.Away) &&
		a.Claims.Lend == b.Claims.Lend && a.Claims.CPUs.Equal(b.Claims.CPUs) && a.Claims.Away.Equal(b.Claims.Away) &&
		a.Mixed.Shared == b.Mixed.Shared && a.Mixed.CPUs.Equal(b.Mixed.CPUs) && slices.Equal(a.Mixed.Namespaces, b.Mixed.Namespaces) &&
		slices.Equal(a.Overrides, b.Overrides) && slices.Equal(a.Units, b.Units) &&
		slices.EqualFunc(a.Partitions, b.Partitions, func(a, b Partition) bool {
			return a.Type == b.Type && a.CPUs.Equal(b.CPUs) && slices.Equal(a.Namespaces, b.Namespaces)
		})
}

func samePods(a, b []Pod) bool {
	if len(a) != len(b) {
		return false
	}
	if len(a) > 0 && &a[0] == &b[0] {
		return true
	}
	for i := range a {
		if !samePod(&a[i], &b[i]) {
			return false
		}
	}
	return true
}

func samePod(a, b *Pod) bool {
	if a.UID != b.UID || a.Namespace != b.Namespace || a.Name != b.Name || a.QoS != b.QoS || a.CreatedAt != b.CreatedAt || a.Resources != b.Resources ||
		a.Resized != b.Resized || a.Gone != b.Gone || a.Unread != b.Unread || a.Settled != b.Settled || len(a.Containers) != len(b.Containers) {
		return false
	}
	for i := range a.Containers {
		if !sameContainer(&a.Containers[i], &b.Containers[i]) {
			return false
		}
	}
	// The maps are nearly always identical: comparing their entries costs more than all other fields.
	return reflect.ValueOf(a.Annotations).UnsafePointer() == reflect.ValueOf(b.Annotations).UnsafePointer() || maps.Equal(a.Annotations, b.Annotations)
}

func sameContainer(a, b *Container) bool {
	return a.ID == b.ID && a.Name == b.Name && a.Kind == b.Kind && a.State == b.State && a.CreatedAt == b.CreatedAt && a.FinishedAt == b.FinishedAt &&
		a.Resources == b.Resources && a.Devices == b.Devices && a.Waiting == b.Waiting && a.Nodes.Equal(b.Nodes) && (a.Foreign == b.Foreign || reflect.DeepEqual(a.Foreign, b.Foreign))
}
