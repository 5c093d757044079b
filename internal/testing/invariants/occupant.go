package invariants

import (
	"fmt"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Occupant is the set of CPUs of a container in a plan, or of the processes in a cgroup.
type Occupant struct {
	Name string
	CPUs cpuset.Set
	// Exclusive reports that only occupants of the same Group may run on CPUs.
	Exclusive bool
	// Group names the occupants that share their CPUs, such as containers of one pod; empty for
	// all other occupants.
	Group string
}

// CheckOccupants returns an error for each occupant without CPUs, and for each pair that overlaps although
// one of the two is exclusive (invariants 1 and 2 of ARCHITECTURE.md). The occupants are of
// processes: a cgroup and its ancestor are no pair.
func CheckOccupants(occupants []Occupant) []error {
	var errs []error
	for i, a := range occupants {
		if a.CPUs.IsEmpty() {
			errs = append(errs, fmt.Errorf("%s has no CPU", a.Name))
		}
		for _, b := range occupants[:i] {
			if (a.Exclusive || b.Exclusive) && a.CPUs.Overlaps(b.CPUs) && (a.Group == "" || a.Group != b.Group) {
				errs = append(errs, fmt.Errorf("%s (%s) and %s (%s) share CPU %s, which one of them has exclusively",
					b.Name, b.CPUs, a.Name, a.CPUs, a.CPUs.Intersection(b.CPUs)))
			}
		}
	}
	return errs
}
