package preflight

import (
	"slices"

	"github.com/cpupoold/cpupoold/internal/findings"
)

type (
	// Finding is a finding, in the form that the check of a cluster has too.
	Finding = findings.Finding
	// Severity is the effect of a finding on the node.
	Severity = findings.Severity
)

// Severities.
const (
	Info    = findings.Info
	Warning = findings.Warning
	Error   = findings.Error
	Refuse  = findings.Refuse
)

// newFinding returns a finding; remedy is empty if no action is necessary.
func newFinding(s Severity, subject, found, remedy string) Finding {
	return findings.New(s, subject, found, remedy)
}

// Refusals returns the findings with which the daemon does not start, in the same order.
func Refusals(all []Finding) []Finding {
	return slices.DeleteFunc(slices.Clone(all), func(f Finding) bool { return f.Severity != Refuse })
}
