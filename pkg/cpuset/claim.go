package cpuset

import "fmt"

// Claim is the set of CPUs that somebody runs on: a container of a plan, or the
// processes of a cgroup.
type Claim struct {
	Name string
	CPUs Set
	// Exclusive reports that only claims of the same Group may run on CPUs.
	Exclusive bool
	// Group names the claims that share their CPUs, such as containers of one pod; empty for
	// all other claims.
	Group string
}

// CheckClaims tests invariants 1 and 2 of ARCHITECTURE.md, in plans and on what
// the kernel says: it returns an error for each claim without CPUs, and for each
// pair that overlaps although one of the two is exclusive. Cgroups of which one
// contains the other do not belong together: the claims are those of processes,
// not of their ancestors.
func CheckClaims(claims []Claim) []error {
	var errs []error
	for i, a := range claims {
		if a.CPUs.IsEmpty() {
			errs = append(errs, fmt.Errorf("%s has no CPU", a.Name))
		}
		for _, b := range claims[:i] {
			if (a.Exclusive || b.Exclusive) && a.CPUs.Overlaps(b.CPUs) && (a.Group == "" || a.Group != b.Group) {
				errs = append(errs, fmt.Errorf("%s (%s) and %s (%s) share CPU %s, which one of them has to itself",
					b.Name, b.CPUs, a.Name, a.CPUs, a.CPUs.Intersection(b.CPUs)))
			}
		}
	}
	return errs
}
