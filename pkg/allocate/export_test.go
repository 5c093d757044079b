package allocate

import "github.com/cpupoold/cpupoold/pkg/cpuset"

// Free returns the CPUs of the supply.
func (s *Supply) Free() cpuset.Set { return cpuset.FromWords(s.free) }

// MaxCombinations is the bound of Considered's result for one try.
const MaxCombinations = maxCombinations

// MaxSteps is the bound of Steps' result for one try.
const MaxSteps = maxSteps

// Steps returns the number of steps in the distributions of the last Take.
func (s *Supply) Steps() int { return s.steps }

// Considered returns the number of combinations of cells and caches that the last Take
// tried.
func (s *Supply) Considered() int { return s.considered }
