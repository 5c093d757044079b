package telemetry

// Document returns docs/metrics.md.
func Document() string { return document(specs()) }
