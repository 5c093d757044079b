package cgroup

import "github.com/cpupoold/cpupoold/pkg/cpuset"

// item is one cgroup during Diff: its target, what it was, and what it is after
// the writes so far.
type item struct {
	*Target
	current Current
	via     Via        // its recorder; "" for none
	want    cpuset.Set // target CPUs that are possible

	moves  bool // it has CPUs to be placed on, or holds some that others want
	placed bool // the request is as wanted, or whatever stands in its place
	sealed bool // nothing is left for the recorder
	raw    bool // its files can be written
	stays  bool // it keeps what it holds

	hasUnit bool // what systemd has is known
	unasked bool // and is not, although it has something

	outer *item   // the slice that it is in, if that is Around
	inner []*item // of one that is Around: what is in it

	request, effective, recorded, pending cpuset.Set
	unit                                  cpuset.Set // what systemd puts back whenever it sets anything

	bound   bool // memory nodes are done
	limited bool // weight and quota are done
	sealCRI bool // a CRI update of this list resets weight and quota
}

func newItem(t *Target, c Current, o Options) *item {
	it := &item{
		Target: t, current: c, via: recorder(t, &c, o.Driver), want: t.CPUs,
		moves: !t.CPUs.IsEmpty(), placed: true, sealed: true,
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
	it.sealed = !needsSeal(t, it.want, &c, o.Driver)
	if it.raw {
		it.placed = !needsRaw(it.want, &it.current)
	} else {
		it.placed = it.sealed
	}
	return it
}

// stay gives up on the item's CPUs: it keeps what it holds.
func (it *item) stay() { it.placed, it.sealed, it.raw, it.stays = true, true, false, true }

// holds are the CPUs that the item runs on, or may run on at any moment without
// a write of ours: when CPUs come online or its parent grows (request), when
// the recorder or systemd acts (recorded, unit), when a seal in flight arrives
// (pending). Of these it gets only what the slice of its pod has, if the slice has
// CPUs.
func (it *item) holds() cpuset.Set {
	if it.outer == nil || !it.outer.Confines() { // the usual case, with one union less
		return it.effective.Union(it.request, it.recorded, it.unit, it.pending)
	}
	return it.effective.Union(it.bounded(it.request.Union(it.recorded, it.unit, it.pending)))
}

// unsettled says that systemd, when it sets anything of the item's unit, would
// take the item to other CPUs: those that it has, or all if it has none; or that it has
// not said what it has. That it has none, as the cgroup, is no better: the property may
// arrive after the next write to the file.
func (it *item) unsettled() bool {
	return it.moves && it.current.Exists && (it.unasked || it.hasUnit && (it.unit.IsEmpty() || !it.unit.Equal(it.request)))
}

// alone are those that an exclusive item holds and shares with nobody.
func (it *item) alone() cpuset.Set {
	if !it.Exclusive {
		return cpuset.Set{}
	}
	if it.defies() {
		return it.holds().Intersection(it.want).Difference(it.Mixed) // the rest is another's
	}
	return it.holds().Difference(it.Mixed)
}

// running are the CPUs that a write adds nothing to. A container or unit that has
// no cgroup yet would start on what is recorded for it, or on everything: then no
// write can add to it.
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

// canSeal says that a seal can be asked for in this pass.
func (it *item) canSeal() bool {
	return it.via != "" && !it.current.NoSeal && (it.raw || !it.current.NoWrite)
}

// tally counts cgroups by CPU.
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

// count adds or removes what the item holds.
func (d *differ) count(it *item, n int32) {
	if it.Around {
		return // nobody waits for it
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

// contested are the CPUs among cpus that the item would share with somebody
// although one of the two has them for itself, and does not share already.
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
