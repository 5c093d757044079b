package cgroup

import "github.com/cpupoold/cpupoold/pkg/cpuset"

// item is one cgroup during Diff: its target, its state before, and its state after
// the writes so far.
type item struct {
	*Target
	current Current
	via     Via        // its recorder; "" for none
	want    cpuset.Set // target CPUs that are possible

	moves     bool // it has target CPUs, or holds CPUs that other items want
	placed    bool // request is in the desired state, or another value replaces it.
	persisted bool // recorder needs no more updates
	raw       bool // its files can be written
	stays     bool // it keeps the CPUs that it holds

	hasUnit bool // systemd's settings are known
	unasked bool // systemd has settings for it, and they are unknown

	outer *item   // the slice that it is in, if that is Around
	inner []*item // items in it, if it is Around

	request, effective, recorded, pending cpuset.Set
	unit                                  cpuset.Set // CPUs that systemd restores whenever it sets any property

	bound      bool // memory nodes are done
	limited    bool // weight and quota are done
	persistCRI bool // a CRI update of this list resets weight and quota
}

func newItem(t *Target, c Current, o Options) *item {
	it := &item{
		Target: t, current: c, via: recorder(t, &c, o.Driver), want: t.CPUs,
		moves: !t.CPUs.IsEmpty(), placed: true, persisted: true,
		raw:     c.Exists && c.HasCPUSet && !c.NoWrite,
		request: c.CPUs, pending: c.Pending,
	}
	if !it.moves {
		return it
	}
	if !o.Possible.IsEmpty() && !t.CPUs.IsSubsetOf(o.Possible) {
		it.want = t.CPUs.Intersection(o.Possible)
	}
	if c.Exists {
		it.effective = c.Effective
	}
	if c.RecordedKnown {
		it.recorded = c.Recorded
	}
	if it.hasUnit = c.Unit.Known && unitOf(t, o.Driver) != ""; it.hasUnit {
		it.unit = c.Unit.CPUs
	}
	it.unasked = !c.Unit.Known && unitOf(t, o.Driver) != ""
	it.persisted = !needsPersist(t, it.want, &c, o.Driver)
	if it.raw {
		it.placed = !needsRaw(it.want, &it.current)
	} else {
		it.placed = it.persisted
	}
	return it
}

// stay gives up on the item's CPUs: it keeps the CPUs that it holds.
func (it *item) stay() { it.placed, it.persisted, it.raw, it.stays = true, true, false, true }

// holds returns the CPUs that the item runs on, and CPUs that it may get at any moment
// without an own write. CPUs come online or its parent grows (request), the recorder or
// systemd acts (recorded, unit), or a pending update arrives (pending). If the slice of its
// pod has CPUs, they bound all but the effective CPUs.
func (it *item) holds() cpuset.Set {
	if it.outer == nil || !it.outer.Confines() { // the usual case, with one union less
		return it.effective.Union(it.request, it.recorded, it.unit, it.pending)
	}
	return it.effective.Union(it.bounded(it.request.Union(it.recorded, it.unit, it.pending)))
}

// unsettled reports whether a change of any property of the item's unit would make systemd
// move the item. systemd moves it to the CPUs of the unit, or to all CPUs without CPUs. The
// result is also true if the unit's CPUs are unknown. A unit without CPUs is unsettled even if the cgroup has
// no request: the property may arrive after the next write to the file.
func (it *item) unsettled() bool {
	return it.moves && it.current.Exists && (it.unasked || it.hasUnit && (it.unit.IsEmpty() || !it.unit.Equal(it.request)))
}

// alone returns the CPUs that an exclusive item holds and shares with no other item.
func (it *item) alone() cpuset.Set {
	if !it.Exclusive {
		return cpuset.Set{}
	}
	if it.defies() {
		return it.holds().Intersection(it.want).Difference(it.Mixed) // the rest belongs to others
	}
	return it.holds().Difference(it.Mixed)
}

// running returns the CPUs to which a write adds none. A container or unit without a
// cgroup would start on its recorded CPUs, or on all CPUs: then no write can add
// CPUs to it.
func (it *item) running() cpuset.Set {
	switch {
	case it.current.Exists:
		return it.effective
	case it.recorded.IsEmpty() && it.pending.IsEmpty():
		return it.want
	}
	return it.recorded.Union(it.pending)
}

// reachable are the CPUs that the item can get from its parent.
func (it *item) reachable() cpuset.Set {
	if it.current.ParentEffective.IsEmpty() { // not known
		return it.want.Union(it.effective)
	}
	return it.current.ParentEffective
}

// written is the effect of a request on the item.
func (it *item) written(cpus cpuset.Set) {
	it.request = cpus
	it.effective = cpus.Intersection(it.reachable())
}

// canPersist reports whether the recorder can be updated in this pass.
func (it *item) canPersist() bool {
	return it.via != "" && !it.current.NoRecord && (it.raw || !it.current.NoWrite)
}

type tally []int32

func (t *tally) add(cpus cpuset.Set, n int32) {
	if last := cpus.Last(); last >= len(*t) {
		*t = append(*t, make([]int32, last+1-len(*t))...)
	}
	for cpu := range cpus.All() {
		(*t)[cpu] += n
	}
}

func (t tally) of(cpu int) int32 {
	if cpu >= len(t) {
		return 0
	}
	return t[cpu]
}

// count adds the CPUs of the item to the counts, or removes them.
func (d *differ) count(it *item, n int32) {
	if it.Around {
		return // no item waits for it
	}
	cpus := it.holds()
	d.holders.add(cpus, n)
	if it.Exclusive {
		d.exclusive.add(it.alone(), n)
	}
}

// change applies the effect of a write to the item and to the counts.
func (d *differ) change(it *item, effect func()) {
	d.count(it, -1)
	for _, in := range it.inner { // their CPUs depend on the slice
		d.count(in, -1)
	}
	effect()
	d.count(it, +1)
	for _, in := range it.inner {
		in.within(it.effective)
		d.count(in, +1)
	}
}

// contested returns the CPUs among cpus that the item would share with another item
// although they are exclusive to one of the two. CPUs that they share already are omitted.
func (d *differ) contested(it *item, cpus cpuset.Set) cpuset.Set {
	added := it.passedOn(cpus.Difference(it.running()))
	if added.IsEmpty() {
		return added
	}
	held := it.holds()
	var taken []int
	for cpu := range added.All() {
		n := d.exclusive.of(cpu)
		if it.Exclusive && !it.Mixed.Contains(cpu) {
			if n = d.holders.of(cpu); held.Contains(cpu) { // counted itself
				n--
			}
			n -= d.group(it, cpu)
		}
		for _, in := range it.inner {
			if in.alone().Contains(cpu) {
				n--
			}
		}
		if n-d.defying(it, cpu) > 0 || d.wakesOwner(it, cpu) {
			taken = append(taken, cpu)
		}
	}
	return cpuset.Of(taken...)
}

// group returns the number of other items of the same group that hold a CPU.
func (d *differ) group(it *item, cpu int) (n int32) {
	if it.Group == "" {
		return 0
	}
	for _, other := range d.items {
		if other != it && other.Group == it.Group && other.moves && !other.Around && other.holds().Contains(cpu) {
			n++
		}
	}
	return n
}
