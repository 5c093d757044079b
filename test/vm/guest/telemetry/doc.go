// Package telemetry is a guest test suite: what /metrics says about processes
// whose CPU time and waiting are known.
package telemetry
