// Package telemetry is a guest test suite. It compares /metrics with processes of known
// CPU time and waiting time.
package telemetry
