package restore

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// checkClaims returns an error if ResourceClaims are prepared, unless Force is set. The containers of a claim would lose
// its CPUs, and the next daemon would not know the claim, while kubelet and scheduler still count it.
func checkClaims(o Options) error {
	j, _ := undo.Find(hostenv.JournalPath(o.Config), o.Config.RunDir) // restoreHost reports the error
	if o.Force || len(j.Claims) == 0 {
		return nil
	}
	return fmt.Errorf("the journal has prepared ResourceClaims (%s), and their containers would lose the CPUs; delete the pods of the claims while a daemon runs, "+
		"or use --force to forget the claims", listed(namesOf(j.Claims)))
}

func namesOf(claims []pools.Claim) (names []string) {
	for i := range claims {
		names = append(names, claims[i].Namespace+"/"+claims[i].Name)
	}
	slices.Sort(names)
	return names
}

// listed returns the first names as text, with the number of the others.
func listed(names []string) string {
	const most = 10
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}
