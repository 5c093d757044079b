package quantity_test

import (
	"regexp"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cpupoold/cpupoold/internal/node/quantity"
)

// TestMilli checks amounts, and texts that are none (-1).
func TestMilli(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1": 1000, "100m": 100, "0.1": 100, "0.5": 500, "1500m": 1500, "1u": 1, "100n": 1, "2k": 2_000_000, "1Ki": 1_024_000,
		"1e3": 1_000_000, "1E3": 1_000_000, "12e-3": 12, "+3": 3000, "7E": 1 << 40 * 1000, "1Ei": 1 << 40 * 1000, "0.3": 300, "4.7": 4700,
		"": -1, "m": -1, "-1": -1, "1 ": -1, "1x": -1, "1mm": -1, "cpu": -1, "1e": -1, "NaN": -1, "Inf": -1, "1e999": 1 << 40 * 1000,
	} {
		got, err := quantity.Milli(text)
		if want == -1 && err == nil || want >= 0 && (got != want || err != nil) {
			t.Errorf("%q: %d, %v; want %d", text, got, err, want)
		}
	}
}

// exponent matches exponents of three digits.
var exponent = regexp.MustCompile(`[eE][+-]?[0-9]{3}`)

// FuzzMilli checks that quantities have the same value as in Kubernetes.
func FuzzMilli(f *testing.F) {
	for _, s := range []string{"0", "1", "100m", "1.5", "2k", "1Ki", "3e2", "3E2", "1E", "0.1", ".5", "1u", "1n", "+1", "-1", "1e400", "Ki", "12345678901"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 64 || exponent.MatchString(s) {
			return // apimachinery takes too long to parse them
		}
		want, err := resource.ParseQuantity(s)
		if most := resource.NewScaledQuantity(1<<40, 0); err != nil || want.Sign() < 0 || want.Cmp(*most) > 0 {
			return // not in the kubelet's file, or above the maximum
		}
		canonical := resource.NewQuantity(0, want.Format)
		canonical.Add(want) // drops the cached original text
		if got, err := quantity.Milli(canonical.String()); err != nil || got != want.MilliValue() {
			t.Errorf("%q, written %s: %d thousandths, %v; want %d", s, canonical, got, err, want.MilliValue())
		}
	})
}
