package tune

import (
	"fmt"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Decision is what a pass is to do.
type Decision struct {
	// Changes are in the order in which they are to be made.
	Changes []Change
	// Records are what has to be on disk before the first of them: those of all knobs
	// that hold a value of the daemon's, or will. Sorted.
	Records []Record
	// Stuck are the knobs that cannot be what they should.
	Stuck []Stuck
}

// Plan compares what is wished with what the host shows.
//
// A mask is to have all CPUs that it would have without the daemon but those that are
// wished away. What it would have is its original, as long as it holds what the daemon
// wrote; if somebody else has written it since, that value with the CPUs that the
// daemon had taken. A mask of which nothing would be left gets all CPUs that nobody
// wishes away. An empty one stays so: it says that the feature is off, also if somebody
// has switched it off since.
//
// unread are kinds of which not all knobs could be read: what is missing of them stays on
// record, and so does what sleeps. Records of what is gone otherwise go with it.
func Plan(w Wish, seen []Observed, undo []Record, m Machine, unread []Kind) Decision {
	p := planner{wish: w, machine: m, records: make(map[Knob]Record, len(undo))}
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

// planner is the state of one Plan.
type planner struct {
	wish    Wish
	machine Machine
	records map[Knob]Record
	// newDefault is what new interrupts have had from the default that the daemon wrote, and
	// freshOriginal what they would have had; both empty if it has written none.
	newDefault, originalDefault cpuset.Set
	out                         Decision
}

// recorded is what is on record of a knob, if that is still the same.
func (p *planner) recorded(o Observed) (Record, bool) {
	r, ok := p.records[o.Knob]
	return r, ok && r.ID == o.ID
}

// planValue plans a knob that is no mask.
func (p *planner) planValue(o Observed) {
	want, wished := p.wish.Values[o.Knob]
	r, known := p.recorded(o)
	foreign := known && o.Value != r.Wrote && o.Value != r.Before
	if !known {
		r = Record{Knob: o.Knob, ID: o.ID, Original: o.Value, Wrote: o.Value}
	} else if foreign {
		r.Original = o.Value // who wrote it since knows better what it is to be
	}
	switch {
	case !wished && (!known || o.Value == r.Original):
		return
	case !wished:
		want = r.Original
	case o.Value == want:
		if known {
			r.Wrote, r.Before = want, ""
			p.out.Records = append(p.out.Records, r)
		}
		return
	}
	r.Wrote = want
	p.addChange(o, r, want, !wished, foreign)
}

// planMask plans a knob whose value is a set of CPUs.
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
	away := p.wish.excluded(o.Kind)
	if o.Kind == KThread && base.Len() == 1 {
		return
	}
	want := base.Difference(away)
	if !want.Overlaps(p.machine.Online) {
		if want = p.machine.Online.Difference(away); want.IsEmpty() {
			p.addStuck(o, NoCPULeft, fmt.Sprintf("CPUs %s are to be left alone, and no other one is online", away))
			if want = base; !want.Overlaps(p.machine.Online) {
				want = now
			}
		}
	}
	if o.Kind == DefaultAffinity && known && !base.Equal(now) {
		p.newDefault, p.originalDefault = now, base
	}
	if away.IsEmpty() && want.Equal(now) {
		return // given back
	}
	r = Record{Knob: o.Knob, ID: o.ID, Original: p.format(o.Kind, base), Wrote: p.format(o.Kind, want), Presumed: r.Presumed && known}
	switch {
	case !want.Equal(now):
		p.addChange(o, r, r.Wrote, away.IsEmpty(), foreign)
	case o.Kind == IRQ || !base.Equal(now):
		// Those that are as they should be are on record, too: whose interrupt is not is new.
		p.out.Records = append(p.out.Records, r)
	}
}

// baseOfNewIRQ is what an interrupt without a record would have without the daemon. Each that
// was there when the default was changed has one: this one has come since, and has what the
// kernel has made of the default (kernel/irq/manage.c, irq_setup_affinity), unless somebody
// has chosen its CPUs.
func (p *planner) baseOfNewIRQ(o Observed, now cpuset.Set) cpuset.Set {
	made := func(mask cpuset.Set) cpuset.Set {
		mask = mask.Intersection(p.machine.Online)
		if near, err := cpuset.Parse(o.Near); err == nil && near.Overlaps(mask) {
			return mask.Intersection(near)
		}
		return mask
	}
	if !p.newDefault.IsEmpty() && now.Intersection(p.machine.Online).Equal(made(p.newDefault)) {
		return now.Union(made(p.originalDefault))
	}
	return now
}

// baseOf is what a mask would be without the daemon, and whether somebody else has written
// it since.
func (p *planner) baseOf(r Record, now cpuset.Set) (base cpuset.Set, foreign bool, err error) {
	original, err := p.parse(r.Kind, r.Original)
	if err != nil {
		return base, false, fmt.Errorf("undo record: %w", err)
	}
	wrote, err := p.parse(r.Kind, r.Wrote)
	if err != nil {
		return base, false, fmt.Errorf("undo record: %w", err)
	}
	taken := original.Difference(wrote)
	if r.Before != "" {
		before, err := p.parse(r.Kind, r.Before)
		if err != nil {
			return base, false, fmt.Errorf("undo record: %w", err)
		}
		if now.Equal(before) {
			return original, false, nil
		}
		taken = taken.Union(original.Difference(before))
	}
	if now.Equal(wrote) {
		return original, false, nil
	}
	return now.Union(taken), true, nil
}

// parse reads a value as the CPUs that it lets have work.
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

// format is the opposite of parse.
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

// Presume makes records of masks of which there is none although the daemon may have
// changed them: those that have all CPUs of the kernel's default but some of the machine's
// exclusive ones. Their original is that default: all CPUs, or those that the kernel's
// command line leaves.
func Presume(seen []Observed, exclusive cpuset.Set, m Machine) []Record {
	p := planner{machine: m}
	var all []Record
	for _, o := range seen {
		if !o.Kind.isMask() || o.Kind == RPS {
			continue // a queue without RPS is the default
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

// bootDefault are the CPUs that a mask has as the kernel makes it.
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
