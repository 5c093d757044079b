package desired

// These functions are exported for tests with more input than an OCI runtime prints.
var (
	FormulaOfVersion = formulaOfVersion
	FormulaOfWeight  = formulaOfWeight
)
