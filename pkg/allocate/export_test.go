package allocate

import "github.com/cpupoold/cpupoold/pkg/cpuset"

// Free returns the CPUs of the supply.
func (s *Supply) Free() cpuset.Set { return cpuset.FromWords(s.free) }

// MaxCombinations is the bound of what Considered returns for one try.
const MaxCombinations = maxCombinations

// MaxSteps is the bound of what Steps returns for one try.
const MaxSteps = maxSteps

// Steps is how many steps the distributions of the last Take made.
func (s *Supply) Steps() int { return s.steps }

// Considered is how many combinations of cells and caches the last Take tried.
func (s *Supply) Considered() int { return s.considered }
