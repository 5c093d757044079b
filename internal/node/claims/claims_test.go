package claims_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/node/claims"
	"github.com/cpupoold/cpupoold/internal/node/waits"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
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

// TestAnswer checks that a claim is answered when the journal has its CPUs, and that a claim that has lost its CPUs
// gets an error.
func TestAnswer(t *testing.T) {
	claim := pools.Claim{UID: "u", Namespace: "ran", Name: "du", PodUID: "p", Parts: []pools.ClaimPart{{Request: "cpus", Device: "numa0", CPUs: 1}}}
	with := pools.Plan{Claims: []pools.ClaimPlan{{UID: "u", Parts: []pools.ClaimPartPlan{{ClaimPart: claim.Parts[0], On: cpuset.Of(6)}}}}}
	without := pools.Plan{Claims: []pools.ClaimPlan{{UID: "u", Namespace: "ran", Name: "du", Refused: &allocate.Refusal{}, Reason: pools.Reason{Text: "gets no CPUs"}}}}
	for name, s := range map[string]struct {
		plan    pools.Plan
		planned bool
		durable int
		want    string
	}{
		"before the pass":               {with, false, 9, ""},
		"CPUs not on disk":              {with, true, 4, ""},
		"CPUs on disk":                  {with, true, 5, "6 <nil>"},
		"no CPUs since an earlier boot": {without, true, 5, " claim ran/du: gets no CPUs"},
	} {
		t.Run(name, func(t *testing.T) {
			c := claims.New([]pools.Claim{claim})
			change := &claims.Change{UID: "u", Claim: &claim, Question: waits.Ask[[]inspect.ClaimPart](nil)}
			c.Take(change, c.Decide(change, nil, nil))
			if s.planned {
				c.NotePlanned(5)
			}
			c.Answer(&s.plan, func(change int) bool { return change <= s.durable })
			got := ""
			select {
			case r := <-change.Reply():
				var cpus cpuset.Set
				for _, part := range r.Value {
					cpus = cpus.Union(part.CPUs)
				}
				got = fmt.Sprint(cpus, " ", r.Err)
			default:
			}
			if got != s.want {
				t.Errorf("answer = %q; want %q", got, s.want)
			}
			c.NotePlanned(5)
			c.Answer(&with, func(int) bool { return true })
			if again := len(change.Reply()) > 0; again != (s.want == "") {
				t.Errorf("answered when all is on disk: %t; want %t, one answer to each change", again, s.want == "")
			}
		})
	}
}
