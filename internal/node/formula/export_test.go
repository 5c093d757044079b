package formula

// These functions are exported for tests with more input than an OCI runtime prints.
var (
	OfVersion = formulaOfVersion
	OfWeight  = formulaOfWeight
)
