package preflight

import (
	"cmp"
	"fmt"
	"slices"
)

// Severity says what a finding means for the node.
type Severity int

const (
	// Info is worth knowing; nothing needs to be done.
	Info Severity = iota
	// Warning is a node that works, but worse than it could.
	Warning
	// Error is something that does not work until it is repaired.
	Error
	// Refuse is an Error with which the daemon does not start, because its
	// writes would have no effect or fight with another manager's.
	Refuse
)

// String returns "info", "warning", "error" or "refuse".
func (s Severity) String() string {
	switch s {
	case Info:
		return "info"
	case Warning:
		return "warning"
	case Error:
		return "error"
	case Refuse:
		return "refuse"
	default:
		return fmt.Sprintf("severity(%d)", int(s))
	}
}

// MarshalText returns what String returns. It never fails.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (s *Severity) UnmarshalText(text []byte) error {
	for _, known := range []Severity{Info, Warning, Error, Refuse} {
		if known.String() == string(text) {
			*s = known
			return nil
		}
	}
	return fmt.Errorf("parse severity %q: not one of info, warning, error, refuse", text)
}

// Finding is one problem, or one thing worth knowing.
type Finding struct {
	// Check is the stable name of the check that found it.
	Check    string   `json:"check"`
	Severity Severity `json:"severity"`
	// Subject is the thing: a file, with the key in it where there is one, a
	// cgroup, a socket, a pool.
	Subject string `json:"subject"`
	// Found is what is the matter with it, with the value that was seen.
	Found string `json:"found"`
	// Remedy is what to do. Empty where there is nothing to do.
	Remedy string `json:"remedy,omitempty"`
}

// String is the finding in one line: subject, what was found, remedy.
func (f Finding) String() string {
	if f.Remedy == "" {
		return f.Subject + ": " + f.Found
	}
	return f.Subject + ": " + f.Found + ": " + f.Remedy
}

// Refusals returns those findings with which the daemon must not start, in their
// order.
func Refusals(findings []Finding) []Finding {
	var refusals []Finding
	for _, f := range findings {
		if f.Severity == Refuse {
			refusals = append(refusals, f)
		}
	}
	return refusals
}

// sortFindings puts the gravest first; within one severity the order is by check
// and subject, so that equal hosts give equal output.
func sortFindings(findings []Finding) {
	slices.SortFunc(findings, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(b.Severity, a.Severity),
			cmp.Compare(a.Check, b.Check),
			cmp.Compare(a.Subject, b.Subject),
			cmp.Compare(a.Found, b.Found),
		)
	})
}
