package desired_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

func TestFormulaOfVersion(t *testing.T) {
	for out, want := range map[string]config.WeightFormula{
		"runc version 1.1.15+ds1\ncommit: x\nspec: 1.0.2\n": config.WeightLinear,
		"runc version 1.2.9\n":                              config.WeightLinear,
		"runc version 1.3.1":                                config.WeightLinear,
		"runc version 1.3.2":                                config.WeightQuadratic,
		"runc version 1.4.0-rc.1":                           config.WeightQuadratic,
		"runc version 1.5.2\n":                              config.WeightQuadratic,
		"crun version 1.22\n":                               config.WeightLinear,
		"crun version 1.23\ncommit: x\n":                    config.WeightQuadratic,
		"crun version 2.0":                                  config.WeightQuadratic,
		"youki version 0.5":                                 "",
		"":                                                  "",
		"runc version one":                                  "",
	} {
		got, err := desired.FormulaOfVersion(out)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("formulaOfVersion(%q) = %q, %v; want %q", out, got, err, want)
		}
	}
}

func FuzzFormulaOfVersion(f *testing.F) {
	f.Add("runc version 1.3.2")
	f.Add("crun version 99999999999999999999.1")
	f.Fuzz(func(t *testing.T, out string) {
		if got, err := desired.FormulaOfVersion(out); (err == nil) != (got == config.WeightLinear || got == config.WeightQuadratic) {
			t.Errorf("formulaOfVersion(%q) = %q, %v", out, got, err)
		}
	})
}

func TestObserveFormula(t *testing.T) {
	for shares := uint64(0); shares <= 262144; shares += 7 {
		linear, quadratic := cgroup.WeightLinear(shares), cgroup.WeightQuadratic(shares)
		if f, ok := desired.ObserveFormula(shares, linear); ok && f != config.WeightLinear {
			t.Errorf("weight %d of %d shares was taken for %s", linear, shares, f)
		}
		if f, ok := desired.ObserveFormula(shares, quadratic); ok && f != config.WeightQuadratic {
			t.Errorf("weight %d of %d shares was taken for %s", quadratic, shares, f)
		}
		if _, ok := desired.ObserveFormula(shares, linear); ok == (linear == quadratic) {
			t.Errorf("%d shares: decided = %v, weights %d and %d", shares, ok, linear, quadratic)
		}
	}
	if f, ok := desired.ObserveFormula(1024, 77); ok {
		t.Errorf("a weight of neither formula was taken for %s", f)
	}
}
