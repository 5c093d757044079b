package pools

import (
	"cmp"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// demand is the demand of one owner on the guaranteed pool. A demand of a container name lasts
// over all restarts of the container. Other demands belong to systemd units, and to pods for
// the CPUs that are reserved for their containers.
type demand struct {
	key        Key
	pod        int   // index of the pod; none for a unit.
	createdAt  int64 // when the newest instance was created; the age of the demand.
	finishedAt int64 // when the newest instance has exited; 0 if it has not, or if that is not known
	want       int
	least      int        // lower bound of want with atLeast; for a reserve, CPUs that the pod will certainly request.
	cpus       cpuset.Set // CPUs of the demand: first the previous assignment, in the end the new one.
	away       cpuset.Set // CPUs of the demand that are offline now; see Assignment
	options    *allocate.Options
	nodes      cpuset.Set        // hinted
	missing    int               // how much a reserve is too small
	refused    *allocate.Refusal // why a demand that lacks CPUs does not get them
	// live reports that an instance of the container exists that has not exited.
	// Only live demands get CPUs; the others keep their CPUs until the pod ends or a
	// container of the same pod needs them.
	live      bool
	atLeast   bool // want is a guess: least, or the previous number of CPUs.
	unread    bool // its pod is Pod.Unread: it wants the CPUs that it has.
	waiting   bool // it gets no CPUs yet if it has no CPUs.
	contested bool // another owner was recorded for some of cpus
	// frozen reports that the reserve gets no more CPUs.
	frozen  bool
	crowded bool // another owner has threads of cores that should belong to the demand alone
	part    bool // see Assignment
	full    bool // it is live, and requests the total of its pod
	// set divides the CPUs of a pod with pod-level resources; nil for all other demands. The demand
	// is on the CPUs of the whole pod.
	set *podSet
}

// none is the index of no pod.
const none = -1

// isReserve reports whether c is the reserve of a pod. Its want are the CPUs that the
// pod's total leaves for containers that do not exist yet.
func (c *demand) isReserve() bool { return c.key.Container == "" && c.set == nil }

func (c *demand) isUnit() bool { return c.pod == none }

// lacks reports whether c should have more CPUs than it has.
func (c *demand) lacks() bool { return c.live && c.cpus.Len() < c.want }

// guess sets the want of c if it depends on the CPUs that c has.
func (c *demand) guess() {
	switch {
	case c.waiting && c.cpus.IsEmpty():
		c.want = 0
	case c.unread:
		c.want = c.cpus.Len()
	case c.atLeast:
		c.want = max(c.least, c.cpus.Len()+c.away.Len())
	}
}

// demands lists the demands on the guaranteed pool, sorted by key: the demands of units
// come first. Pods and their containers are sorted; classes are in the same order.
func demands(p *Pools, pods []Pod, classes []class, previous []Assignment) []demand {
	previous = slices.Clone(previous)
	slices.SortFunc(previous, func(a, b Assignment) int { return a.Compare(b.Key) })
	room := 0
	for i := range pods {
		if classes[i].options != nil {
			room += len(pods[i].Containers) + 1 // a reserve
		}
	}
	all := slices.Grow(unitDemands(p, previous), room)
	for i := range pods {
		p := &pods[i]
		_, previous = cut(previous, func(a *Assignment) bool { return a.PodUID < p.UID })
		own, _ := cut(previous, func(a *Assignment) bool { return a.PodUID == p.UID })
		if options := classes[i].options; options != nil {
			first := len(all)
			if level := classes[i].level; level.set() {
				all = append(all, level.demand(i, p, classes[i].verdicts, own))
			} else {
				all = appendDemands(all, i, p, &classes[i], own)
			}
			for j := range all[first:] {
				c := &all[first+j]
				if c.options = options; p.Unread {
					c.unread, c.atLeast, c.least = true, true, 0
				}
			}
		}
	}
	return all
}

func unitDemands(p *Pools, previous []Assignment) []demand {
	var all []demand
	held, _ := cut(previous, func(a *Assignment) bool { return a.IsUnit() })
	for _, u := range p.Units {
		if u.CPUs > 0 {
			c := newDemand(none, Key{Container: u.Name}, recorded(held, u.Name))
			c.live, c.want, c.options = true, u.CPUs, &p.Options
			all = append(all, c)
		}
	}
	return all
}

// appendDemands appends the demands of one pod; previous are its assignments.
func appendDemands(all []demand, pod int, p *Pod, class *class, previous []Assignment) []demand {
	verdicts, first := class.verdicts, len(all)
	before := func(name string) (of []Assignment) {
		of, previous = cut(previous, func(a *Assignment) bool { return a.Container == name })
		return of
	}
	reserve := newDemand(pod, Key{PodUID: p.UID}, before(""))
	left := reservable(p, verdicts)
	if class.level != nil || class.claims {
		left = remainder{} // the pod reserves no CPUs
	}
	reserve.want, reserve.least, reserve.frozen = left.cpus, left.sure, left.frozen
	reserve.createdAt = sandboxAge(p)
	if reserve.want > 0 || !reserve.cpus.IsEmpty() || !reserve.away.IsEmpty() {
		all = append(all, reserve)
	}
	i, next := p.newest(0) // pause containers never need any CPUs
	for i >= 0 || len(previous) > 0 {
		if i < 0 || len(previous) > 0 && previous[0].Container < p.Containers[i].Name {
			// Only the assignment is left of the container.
			held := before(previous[0].Container)
			all = append(all, newDemand(pod, held[0].Key, held))
			continue
		}
		ctr := &p.Containers[i]
		held := before(ctr.Name)
		if v := verdicts[i]; v.pool == Guaranteed {
			c := newDemand(pod, Key{PodUID: p.UID, Container: ctr.Name}, held).madeBy(ctr, v)
			if c.live && p.Resources.Shares != 0 {
				c.part = c.part || ctr.Resources.isPart(p.Resources)
				c.full = ctr.Resources.isFull(p.Resources)
			}
			all = append(all, c)
		}
		i, next = p.newest(next)
	}
	leaveHeld(all[first:])
	return all
}

// leaveHeld lowers the request of a container with the total of its pod by the CPUs that are held for
// containers that ran at the same time. Such a pod has pod-level resources: all containers together
// have its total. If the container has requested less before, a resize has made the total outdated.
func leaveHeld(siblings []demand) {
	for i := range siblings {
		c := &siblings[i]
		if !c.full || c.part || c.atLeast {
			continue
		}
		held := leftBy(siblings).Difference(leftBefore(siblings, c.createdAt)).Difference(c.cpus)
		if !held.IsEmpty() {
			c.want = min(c.want, max(c.want-held.Len(), c.cpus.Len()+c.away.Len(), 1))
		}
	}
}

func newDemand(pod int, key Key, held []Assignment) demand {
	c := demand{key: key, pod: pod}
	for _, h := range held {
		c.had(h)
	}
	return c
}

func (c *demand) had(a Assignment) {
	c.cpus, c.away, c.part = c.cpus.Union(a.CPUs), c.away.Union(a.Away), c.part || a.Part
}

// madeBy sets the fields of c that depend on its container.
func (c demand) madeBy(ctr *Container, v verdict) demand {
	c.live, c.createdAt = ctr.State != Exited, ctr.CreatedAt
	if !c.live {
		c.finishedAt = ctr.FinishedAt
	}
	c.want, c.atLeast, c.least = v.want, v.atLeast, v.want
	c.waiting, c.nodes = v.waiting, ctr.Nodes
	return c
}

// newestOf returns the index of the instance that counts: the newest that has
// not exited, else the newest.
func newestOf(instances []Container) int {
	best := 0
	for i := range instances {
		a, b := &instances[i], &instances[best]
		if cmp.Or(first(a.State == Exited, b.State == Exited), cmp.Compare(a.CreatedAt, b.CreatedAt), cmp.Compare(a.ID, b.ID)) > 0 {
			best = i
		}
	}
	return best
}

// byAge returns the indices of demands in the order in which they are served:
// units, then existing containers, then planned containers; the older first. The last
// demand loses first. So the demands of unread pods come before all others: they only keep
// their CPUs.
func byAge(demands []demand) []int {
	order := make([]int, len(demands))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		a, b := &demands[i], &demands[j]
		return cmp.Or(first(a.unread, b.unread), first(a.isUnit(), b.isUnit()), first(a.live, b.live),
			cmp.Compare(a.createdAt, b.createdAt), a.key.Compare(b.key))
	})
	return order
}

// first is the result of a comparison in which the one for which it is true comes first.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}
