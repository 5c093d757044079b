package pools

import (
	"fmt"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// dropAway reduces the offline CPUs of owners to the number of CPUs that they lack in the
// end. An owner with replacements does not get its offline CPUs back.
func (a *assigner) dropAway() {
	for i := range a.claims {
		c := &a.claims[i]
		if c.away.IsEmpty() {
			continue
		}
		if lack, known := a.lack(i); known && lack < c.away.Len() {
			c.away = c.away.Take(max(lack, 0))
		}
	}
}

// lack returns how many CPUs claim i lacks. The number is unknown for a container that does
// not exist at the moment, or that gets no CPUs yet.
func (a *assigner) lack(i int) (n int, known bool) {
	c := &a.claims[i]
	switch {
	case c.unread, c.waiting && c.cpus.IsEmpty():
		return 0, false
	case c.isReserve():
		return a.owed(c, a.siblings(i)) - c.cpus.Len(), true
	case !c.live:
		return 0, false
	}
	return c.want - c.cpus.Len(), true
}

// reportAway reports the offline CPUs of an owner.
func reportAway(c *claim) (r Reason, is bool) {
	if c.away.IsEmpty() {
		return Reason{}, false
	}
	verb := "is"
	if c.away.Len() > 1 {
		verb = "are"
	}
	return Reason{CodeOffline, fmt.Sprintf("%s of its own %s offline, and kept for it until it gets others instead", named(c.away), verb)}, true
}

// named formats the CPUs as text.
func named(cpus cpuset.Set) string {
	if cpus.Len() == 1 {
		return "CPU " + cpus.String()
	}
	return "CPUs " + cpus.String()
}
