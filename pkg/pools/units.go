package pools

// units places the systemd units of the configuration; claims are theirs.
func (b *placer) units(claims []claim) []UnitPlan {
	var plans []UnitPlan
	for _, u := range b.pools.Units {
		at := UnitPlan{Name: u.Name}
		switch {
		case u.CPUs > 0:
			b.exclusiveUnit(&at, &claims[0])
			claims = claims[1:]
		case u.Pool == string(Shared):
			at.Pool, at.CPUs = Shared, b.ofShared
			at.Reason = Reason{CodeUnit, "the configuration puts the unit there"}
		default:
			at.Pool, at.Type, at.CPUs = Management, u.Pool, b.partition(u.Pool)
			at.Reason = Reason{CodeUnit, "the configuration puts the unit there"}
		}
		plans = append(plans, at)
	}
	return plans
}

// exclusiveUnit places a unit that requests exclusive CPUs.
func (b *placer) exclusiveUnit(at *UnitPlan, c *claim) {
	report := func(r Reason) { b.problems = append(b.problems, Problem{Unit: at.Name, Reason: r}) }
	if c.contested {
		report(overlap())
	}
	if r, is := reportAway(c); is {
		report(r)
	}
	if c.crowded {
		report(crowded())
	}
	switch {
	case c.cpus.IsEmpty():
		at.Pool, at.CPUs, at.Refused, at.Reason = Shared, b.ofShared, c.refused, b.refused(c)
	case c.lacks():
		at.Reason = b.short(c)
	default:
		at.Reason = Reason{CodeUnit, whole(c.want) + ", as configured"}
	}
	if c.lacks() {
		report(at.Reason)
	}
	if !c.cpus.IsEmpty() {
		at.Pool, at.CPUs, at.Exclusive, at.Mems = Guaranteed, c.cpus, true, b.mems.of(c.cpus)
	}
}
