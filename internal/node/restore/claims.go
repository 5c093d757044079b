package restore

import (
	"fmt"
	"slices"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// checkClaims returns an error if ResourceClaims are prepared, unless Force is set. The containers of a claim would lose
// its CPUs, and the next daemon would not know the claim, while kubelet and scheduler still count it.
func checkClaims(o Options) error {
	names := Claims(o.Config)
	if o.Force || len(names) == 0 {
		return nil
	}
	return fmt.Errorf("the journal has prepared ResourceClaims (%s), and their containers would lose the CPUs; delete the pods of the claims while a daemon runs, "+
		"or use --force to forget the claims", layout.Few(names, 10))
}

// Claims returns the names of the ResourceClaims of the journal, sorted. It returns no names if the journal cannot be
// read, which restore and the daemon report.
func Claims(c *config.Config) []string {
	j, _ := undo.File{Name: c.JournalFile(), RunDir: c.RunDir}.Find()
	return namesOf(j.Claims)
}

func namesOf(claims []pools.Claim) (names []string) {
	for i := range claims {
		names = append(names, claims[i].Namespace+"/"+claims[i].Name)
	}
	slices.Sort(names)
	return names
}
