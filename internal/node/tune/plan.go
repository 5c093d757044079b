package tune

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Decision is the result of Plan.
type Decision struct {
	// Changes are the values to write, in this order.
	Changes []Change
	// Records must be on disk before the first change. They contain all knobs that have a
	// value of the daemon, or will have one. Sorted.
	Records []Record
	// Stuck contains the knobs that cannot have their desired value.
	Stuck []Stuck
}

// Plan compares the desired state w with the values of the host.
//
// A mask gets the CPUs that it would have without the daemon, except the excluded ones.
// Without the daemon, it would have:
//   - its original, while it has the value that the daemon wrote;
//   - after an external write, that value and the CPUs that the daemon had removed.
//
// If the result has no online CPU, the mask gets all online CPUs that are not excluded. An
// empty mask stays empty, because it switches the feature off. This also applies if another
// process has made it empty since.
//
// unread are kinds with knobs that could not be read. Missing knobs of these kinds keep their
// records, and so do knobs that are asleep. Other missing knobs lose their records.
func Plan(w Desired, seen []Observed, undo []Record, m Machine, unread []Kind) Decision {
	p := planner{desired: w, machine: m, records: make(map[Knob]Record, len(undo))}
	for _, r := range undo {
		p.records[r.Knob] = r
	}
	seen = slices.Clone(seen)
	slices.SortFunc(seen, func(a, b Observed) int { return compare(a.Knob, b.Knob) })
	there := make(map[Knob]bool, len(seen))
	for _, o := range seen {
		there[o.Knob] = true
		switch r, known := p.records[o.Knob]; {
		case o.Asleep:
			if known {
				p.out.Records = append(p.out.Records, r)
			}
		case !o.Kind.isMask():
			p.planValue(o)
		default:
			p.planMask(o)
		}
	}
	for _, r := range undo {
		if !there[r.Knob] && slices.Contains(unread, r.Kind) {
			p.out.Records = append(p.out.Records, r)
		}
	}
	slices.SortFunc(p.out.Records, func(a, b Record) int { return compare(a.Knob, b.Knob) })
	return p.out
}

type planner struct {
	desired Desired
	machine Machine
	records map[Knob]Record
	// newDefault is the default mask of interrupts that the daemon wrote, originalDefault
	// the mask without the daemon. Both are empty without a change.
	newDefault, originalDefault cpuset.Set
	out                         Decision
}

func (p *planner) recorded(o Observed) (Record, bool) {
	r, ok := p.records[o.Knob]
	return r, ok && r.ID == o.ID
}

func (p *planner) planValue(o Observed) {
	want, isDesired := p.desired.Values[o.Knob]
	r, known := p.recorded(o)
	foreign := known && o.Value != r.Wrote && o.Value != r.Before
	if !known {
		r = Record{Knob: o.Knob, ID: o.ID, Original: o.Value, Wrote: o.Value}
	} else if foreign {
		r.Original = o.Value // an external write replaces the original
	}
	switch {
	case !isDesired && (!known || o.Value == r.Original):
		return
	case !isDesired:
		want = r.Original
	case o.Value == want:
		if known {
			r.Wrote, r.Before = want, ""
			p.out.Records = append(p.out.Records, r)
		}
		return
	}
	r.Wrote = want
	p.addChange(o, r, want, !isDesired, foreign)
}

func (p *planner) planMask(o Observed) {
	now, err := p.parse(o.Kind, o.Value)
	if err != nil {
		p.addStuck(o, Failed, err.Error())
		return
	}
	r, known := p.recorded(o)
	base, foreign := now, false
	if now.IsEmpty() {
		return
	}
	if known {
		if base, foreign, err = p.baseOf(r, now); err != nil {
			p.addStuck(o, Failed, err.Error())
			p.out.Records = append(p.out.Records, r)
			return
		}
	} else if o.Kind == IRQ {
		base = p.baseOfNewIRQ(o, now)
	}
	away := p.desired.excluded(o.Kind)
	if o.Kind == KThread && base.Len() == 1 {
		return
	}
	want := base.Difference(away)
	if !want.Overlaps(p.machine.Online) {
		if want = p.machine.Online.Difference(away); want.IsEmpty() {
			p.addStuck(o, NoCPULeft, fmt.Sprintf("all online CPUs are excluded (CPUs %s)", away))
			if want = base; !want.Overlaps(p.machine.Online) {
				want = now
			}
		}
	}
	if o.Kind == DefaultAffinity && known && !base.Equal(now) {
		p.newDefault, p.originalDefault = now, base
	}
	if away.IsEmpty() && want.Equal(now) {
		return // restored
	}
	r = Record{Knob: o.Knob, ID: o.ID, Original: p.format(o.Kind, base), Wrote: p.format(o.Kind, want), Presumed: r.Presumed && known}
	switch {
	case !want.Equal(now):
		p.addChange(o, r, r.Wrote, away.IsEmpty(), foreign)
	case o.Kind == IRQ || !base.Equal(now):
		// Interrupts without a change have records, too. So an interrupt without one is new.
		p.out.Records = append(p.out.Records, r)
	}
}

// baseOfNewIRQ returns the mask of an interrupt without the daemon if it has no record. All
// interrupts before the change of the default mask have records, so this one is newer. The
// kernel set its mask from that default (kernel/irq/manage.c, irq_setup_affinity). Any other
// mask was written by another process, and is returned as it is.
func (p *planner) baseOfNewIRQ(o Observed, now cpuset.Set) cpuset.Set {
	setUp := func(mask cpuset.Set) cpuset.Set {
		mask = mask.Intersection(p.machine.Online)
		if near, err := cpuset.Parse(o.Near); err == nil && near.Overlaps(mask) {
			return mask.Intersection(near)
		}
		return mask
	}
	if !p.newDefault.IsEmpty() && now.Intersection(p.machine.Online).Equal(setUp(p.newDefault)) {
		return now.Union(setUp(p.originalDefault))
	}
	return now
}

// baseOf returns the mask without the daemon. It reports whether there was an external write.
func (p *planner) baseOf(r Record, now cpuset.Set) (base cpuset.Set, foreign bool, err error) {
	original, originalErr := p.parse(r.Kind, r.Original)
	wrote, wroteErr := p.parse(r.Kind, r.Wrote)
	before, beforeErr := wrote, error(nil)
	if r.Before != "" {
		before, beforeErr = p.parse(r.Kind, r.Before)
	}
	if err := cmp.Or(originalErr, wroteErr, beforeErr); err != nil {
		return base, false, fmt.Errorf("undo record: %w", err)
	}
	if now.Equal(before) || now.Equal(wrote) {
		return original, false, nil
	}
	return now.Union(original.Difference(wrote), original.Difference(before)), true, nil
}

// parse returns the CPUs that a value permits. For irqbalance it inverts the banned CPUs.
func (p *planner) parse(k Kind, value string) (cpuset.Set, error) {
	set, err := cpuset.Parse(value)
	if err != nil {
		return set, fmt.Errorf("%s: %q is not a list of CPUs: %w", k, value, err)
	}
	if k == IRQBalance {
		set = p.machine.Possible.Difference(set)
	}
	return set, nil
}

// format is the inverse of parse.
func (p *planner) format(k Kind, set cpuset.Set) string {
	if k == IRQBalance {
		set = p.machine.Possible.Difference(set)
	}
	return set.String()
}

func (p *planner) addChange(o Observed, r Record, to string, back, foreign bool) {
	r.Before = o.Value
	p.out.Records = append(p.out.Records, r)
	p.out.Changes = append(p.out.Changes, Change{
		Knob: o.Knob, ID: o.ID, Label: o.Label, From: o.Value, To: to, Back: back, Foreign: foreign, Presumed: r.Presumed,
	})
}

func (p *planner) addStuck(o Observed, why Why, text string) {
	p.out.Stuck = append(p.out.Stuck, Stuck{Knob: o.Knob, Label: o.Label, Value: o.Value, Why: why, Text: text})
}

// Presume returns records for the masks that the daemon may have changed, after the loss of
// the undo record. These masks lack only exclusive CPUs of the kernel's default. The default
// becomes their original: all CPUs, or the CPUs that the kernel's command line permits.
func Presume(seen []Observed, exclusive cpuset.Set, m Machine) []Record {
	p := planner{machine: m}
	var all []Record
	for _, o := range seen {
		if !o.Kind.isMask() || o.Kind == RPS {
			continue // the default of a queue is no RPS
		}
		now, err := p.parse(o.Kind, o.Value)
		boot := p.bootDefault(o)
		missing := boot.Difference(now)
		if err != nil || now.IsEmpty() || !missing.Overlaps(m.Online) || !missing.Intersection(m.Online).IsSubsetOf(exclusive) {
			continue
		}
		all = append(all, Record{Knob: o.Knob, ID: o.ID, Original: p.format(o.Kind, boot.Union(now)), Wrote: o.Value, Presumed: true})
	}
	return all
}

func (p *planner) bootDefault(o Observed) cpuset.Set {
	if o.Default == "" {
		return p.machine.Possible
	}
	set, err := p.parse(o.Kind, o.Default)
	if set = set.Intersection(p.machine.Possible); err != nil || !set.Overlaps(p.machine.Online) {
		return p.machine.Possible
	}
	return set
}
