package cpuset_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

func TestCheckClaims(t *testing.T) {
	a := cpuset.Claim{Name: "a", CPUs: cpuset.Range(0, 3)}
	b := cpuset.Claim{Name: "b", CPUs: cpuset.Range(2, 5)}
	own := cpuset.Claim{Name: "own", CPUs: cpuset.Range(3, 4), Exclusive: true}
	tests := []struct {
		name   string
		claims []cpuset.Claim
		want   []string
	}{
		{"none", nil, nil},
		{"sharers overlap", []cpuset.Claim{a, b}, nil},
		{"disjoint", []cpuset.Claim{own, {Name: "c", CPUs: cpuset.Of(0, 5), Exclusive: true}, {Name: "d", CPUs: cpuset.Of(1, 6)}}, nil},
		{"nobody", []cpuset.Claim{{Name: "n"}, {Name: "x", Exclusive: true}}, []string{"n has no CPU", "x has no CPU"}},
		{"intruders", []cpuset.Claim{a, own, b}, []string{
			"a (0-3) and own (3-4) share CPU 3, which one of them has to itself",
			"own (3-4) and b (2-5) share CPU 3-4, which one of them has to itself",
		}},
		{"two owners", []cpuset.Claim{own, {Name: "c", CPUs: cpuset.Of(4), Exclusive: true}}, []string{
			"own (3-4) and c (4) share CPU 4, which one of them has to itself",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, err := range cpuset.CheckClaims(tt.claims) {
				got = append(got, err.Error())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("CheckClaims: -want +got\n%s", diff)
			}
		})
	}
}
