package invariants_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/testing/invariants"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

func TestCheckOccupants(t *testing.T) {
	a := invariants.Occupant{Name: "a", CPUs: cpuset.Range(0, 3)}
	b := invariants.Occupant{Name: "b", CPUs: cpuset.Range(2, 5)}
	own := invariants.Occupant{Name: "own", CPUs: cpuset.Range(3, 4), Exclusive: true}
	tests := []struct {
		name      string
		occupants []invariants.Occupant
		want      []string
	}{
		{"none", nil, nil},
		{"sharers overlap", []invariants.Occupant{a, b}, nil},
		{"disjoint", []invariants.Occupant{own, {Name: "c", CPUs: cpuset.Of(0, 5), Exclusive: true}, {Name: "d", CPUs: cpuset.Of(1, 6)}}, nil},
		{"no CPUs", []invariants.Occupant{{Name: "n"}, {Name: "x", Exclusive: true}}, []string{"n has no CPU", "x has no CPU"}},
		{"intruders", []invariants.Occupant{a, own, b}, []string{
			"a (0-3) and own (3-4) share CPU 3, which one of them has exclusively",
			"own (3-4) and b (2-5) share CPU 3-4, which one of them has exclusively",
		}},
		{"two owners", []invariants.Occupant{own, {Name: "c", CPUs: cpuset.Of(4), Exclusive: true}}, []string{
			"own (3-4) and c (4) share CPU 4, which one of them has exclusively",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, err := range invariants.CheckOccupants(tt.occupants) {
				got = append(got, err.Error())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("CheckOccupants: -want +got\n%s", diff)
			}
		})
	}
}
