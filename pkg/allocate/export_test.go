package allocate

// MaxCombinations is the bound of what Considered returns for one try.
const MaxCombinations = maxCombinations

// Considered is how many combinations of cells and caches the last Take tried.
func (s *Supply) Considered() int { return s.considered }
