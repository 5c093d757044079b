package formula_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/formula"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestFormulaOfVersion checks the formula by the output of an OCI runtime for --version.
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
		got, err := formula.OfVersion(out)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("FormulaOfVersion(%q) = %q, %v; want %q", out, got, err, want)
		}
	}
}

func FuzzFormulaOfVersion(f *testing.F) {
	f.Add("runc version 1.3.2")
	f.Add("crun version 99999999999999999999.1")
	f.Fuzz(func(t *testing.T, out string) {
		if got, err := formula.OfVersion(out); (err == nil) != (got == config.WeightLinear || got == config.WeightQuadratic) {
			t.Errorf("FormulaOfVersion(%q) = %q, %v", out, got, err)
		}
	})
}

// TestFormulaOfWeight checks the formula by the weight of a container.
func TestFormulaOfWeight(t *testing.T) {
	for shares := uint64(0); shares <= 262144; shares += 7 {
		linear, quadratic := cgroup.WeightLinear(shares), cgroup.WeightQuadratic(shares)
		if f, ok := formula.OfWeight(shares, linear); ok && f != config.WeightLinear {
			t.Errorf("weight %d of %d shares: formula %s", linear, shares, f)
		}
		if f, ok := formula.OfWeight(shares, quadratic); ok && f != config.WeightQuadratic {
			t.Errorf("weight %d of %d shares: formula %s", quadratic, shares, f)
		}
		if _, ok := formula.OfWeight(shares, linear); ok == (linear == quadratic) {
			t.Errorf("%d shares: decided %t, weights %d and %d", shares, ok, linear, quadratic)
		}
	}
	if f, ok := formula.OfWeight(1024, 77); ok {
		t.Errorf("a weight of neither formula: formula %s", f)
	}
}

// TestFetchFormula checks the answer of the OCI runtimes in PATH.
func TestFetchFormula(t *testing.T) {
	for name, c := range map[string]struct {
		programs map[string]string
		want     formula.Answer
	}{
		"none":            {nil, formula.Answer{Formula: config.WeightQuadratic, Version: "unknown"}},
		"old runc":        {map[string]string{"runc": "echo runc version 1.1.0; echo spec: 1.0.2"}, formula.Answer{Formula: config.WeightLinear, Version: "runc version 1.1.0"}},
		"crun":            {map[string]string{"crun": "echo crun version 1.22"}, formula.Answer{Formula: config.WeightLinear, Version: "crun version 1.22"}},
		"runc that fails": {map[string]string{"runc": "exit 1", "crun": "echo crun version 1.22"}, formula.Answer{Formula: config.WeightLinear, Version: "crun version 1.22"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for program, script := range c.programs {
				if err := os.WriteFile(filepath.Join(dir, program), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("PATH", dir)
			if got := formula.Fetch(t.Context()); got != c.want {
				t.Errorf("%+v; want %+v", got, c.want)
			}
		})
	}
}

// TestFormula checks which formula is in force. The configured one precedes the formula of a
// container, and both precede the formula of the OCI runtime's version.
func TestFormula(t *testing.T) {
	const shares = 1024
	m := inventory.New(cgroup.DriverSystemd)
	m.PutContainer(lookup.ContainerStatus{Container: cri.Container{ID: "c", CgroupsPath: "p.slice:cri-containerd:c", Recorded: cri.Resources{Shares: shares}}})
	linear := func(cgroup.Path) cgroup.Current {
		return cgroup.Current{Exists: true, State: cgroup.State{Weight: cgroup.WeightLinear(shares)}}
	}
	answer := formula.Answer{Formula: config.WeightLinear}
	untouched := undo.Document{}.Journal().Originals
	written := undo.Document{Originals: []undo.Original{{Path: m.Objects().Container("c").Path, File: cgroup.FileWeight, Value: "39"}}}.Journal().Originals
	type steps []func(*formula.Formula)
	answered := func(f *formula.Formula) { f.Take(answer) }
	observed := func(f *formula.Formula) { f.Observe(m.Objects(), linear, untouched) }
	for name, c := range map[string]struct {
		configured config.WeightFormula
		steps      steps
		want       config.WeightFormula
		guess      bool
	}{
		"configured":               {config.WeightQuadratic, steps{answered, observed}, config.WeightQuadratic, false},
		"unknown":                  {config.WeightAuto, nil, config.WeightAuto, true},
		"version":                  {config.WeightAuto, steps{answered}, config.WeightLinear, true},
		"container":                {config.WeightAuto, steps{observed}, config.WeightLinear, false},
		"container before version": {config.WeightAuto, steps{observed, func(f *formula.Formula) { f.Take(formula.Answer{Formula: config.WeightQuadratic}) }}, config.WeightLinear, false},
		"own weight":               {config.WeightAuto, steps{func(f *formula.Formula) { f.Observe(m.Objects(), linear, written) }}, config.WeightAuto, true},
		"no cgroup": {config.WeightAuto, steps{func(f *formula.Formula) {
			f.Observe(m.Objects(), func(cgroup.Path) cgroup.Current { return cgroup.Current{} }, untouched)
		}}, config.WeightAuto, true},
		"configured later": {config.WeightAuto, steps{observed, func(f *formula.Formula) { f.Configure(config.WeightQuadratic) }}, config.WeightQuadratic, false},
		"no longer configured": {config.WeightQuadratic, steps{func(f *formula.Formula) {
			if !f.Configure(config.WeightAuto) || f.Configure(config.WeightAuto) {
				t.Error("the runtime is not asked once after a change")
			}
		}}, config.WeightQuadratic, true},
	} {
		f := formula.New(c.configured)
		for _, step := range c.steps {
			step(&f)
		}
		if f.Value() != c.want || f.IsGuess() != c.guess {
			t.Errorf("%s: %s, a guess: %t; want %s, %t", name, f.Value(), f.IsGuess(), c.want, c.guess)
		}
	}
	var f formula.Formula
	if f.IsAnswered() || f.Weight(0) != 0 || f.Weight(shares) != cgroup.WeightQuadratic(shares) {
		t.Errorf("zero value: answered %t, weights %d and %d", f.IsAnswered(), f.Weight(0), f.Weight(shares))
	}
	if f.NoteNoRuntime(); !f.IsAnswered() {
		t.Error("without a runtime the first pass waits for ever")
	}
}
