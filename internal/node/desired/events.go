package desired

import (
	"github.com/cpupoold/cpupoold/internal/config"
)

// FormulaFound is the answer of the OCI runtime to the question for its version.
type FormulaFound struct {
	Formula config.WeightFormula
	Version string // as the runtime prints it
}
