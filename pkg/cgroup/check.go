package cgroup

import (
	"fmt"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Claim is the set of CPUs that the processes of a cgroup run on.
type Claim struct {
	Path      Path
	CPUs      cpuset.Set
	Exclusive bool
}

// Check tests what the kernel says against the invariants 1 and 2 of ARCHITECTURE.md:
// nobody's set is empty, and what is exclusive overlaps with nobody. It returns
// one error for each cgroup or pair that breaks them. Claims of cgroups of which
// one contains the other do not belong together: the caller gives the places of
// processes, not their ancestors.
func Check(claims []Claim) []error {
	var errs []error
	for i, a := range claims {
		if a.CPUs.IsEmpty() {
			errs = append(errs, fmt.Errorf("%s has no CPUs", a.Path))
		}
		for _, b := range claims[i+1:] {
			if (a.Exclusive || b.Exclusive) && a.CPUs.Overlaps(b.CPUs) {
				errs = append(errs, overlapError(a, b))
			}
		}
	}
	return errs
}

func overlapError(a, b Claim) error {
	common := a.CPUs.Intersection(b.CPUs)
	if !a.Exclusive {
		a, b = b, a
	}
	if b.Exclusive {
		return fmt.Errorf("CPUs %s are exclusive to both %s and %s", common, a.Path, b.Path)
	}
	return fmt.Errorf("CPUs %s are exclusive to %s, and %s runs on them too", common, a.Path, b.Path)
}
