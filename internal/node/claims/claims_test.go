package claims_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/claims"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// TestUse checks that a container is recorded once, and only if the journal can contain it.
func TestUse(t *testing.T) {
	c := claims.New([]pools.Claim{{UID: "u", Namespace: "ran", Name: "du", PodUID: "p", Parts: []pools.ClaimPart{{Request: "cpus", Device: "numa0", CPUs: 1}}}})
	before := c.All()
	for _, s := range []struct {
		uid, container string
		changed        bool
	}{
		{"u", "log", true}, {"u", "app", true}, {"u", "app", false}, {"unknown", "app", false}, {"u", "", false}, {"u", "a\nb", false},
	} {
		if changed := c.Use(s.uid, s.container); changed != s.changed {
			t.Errorf("Use(%q, %q) = %t; want %t", s.uid, s.container, changed, s.changed)
		}
	}
	for i := range 2000 {
		c.Use("u", fmt.Sprint("c", i))
	}
	claim, _ := c.Of("u")
	if !slices.IsSorted(claim.Containers) || !slices.Contains(claim.Containers, "app") || len(before[0].Containers) != 0 {
		t.Errorf("containers = %v, in the earlier list %v; want them sorted, and the earlier list unchanged", claim.Containers, before[0].Containers)
	}
	if err := pools.CheckClaims(c.All()); err != nil {
		t.Errorf("the journal would refuse the claims: %v", err)
	}
}
