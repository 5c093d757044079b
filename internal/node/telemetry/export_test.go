package telemetry

// Document is docs/metrics.md.
func Document() string { return document(specs()) }
