//go:build guest

package daemon_test

import (
	"context"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/testing/invariants"
)

// sample checks the invariants against the kernel until the returned function is called, also while the daemon writes or is stopped. A
// sample consists of two walks: facts in both were true at one moment between them. exclusive reports whether the tasks of an occupant must
// have its CPUs exclusively.
func (n *node) sample(exclusive func(invariants.Occupant) bool) (violation func() string) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan string, 1)
	samples := 0
	go func() {
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				ended <- ""
				return
			case <-tick.C:
			}
			first, err1 := n.occupants(placedOnly)
			second, err2 := n.occupants(placedOnly)
			if err1 != nil || err2 != nil {
				continue // a cgroup has gone between list and look
			}
			both := slices.DeleteFunc(first, func(c invariants.Occupant) bool {
				return !slices.ContainsFunc(second, func(d invariants.Occupant) bool { return c.Name == d.Name && c.CPUs.Equal(d.CPUs) })
			})
			samples++
			for i := range both {
				both[i].Exclusive = exclusive(both[i])
			}
			for _, err := range invariants.CheckOccupants(both) {
				ended <- err.Error()
				return
			}
		}
	}()
	return func() string {
		stop()
		found := <-ended
		n.Logf("%d samples", samples)
		if samples == 0 {
			return "no sample was taken"
		}
		return found
	}
}
