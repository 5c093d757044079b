package findings

import (
	"cmp"
	"fmt"
)

// Severity is the effect of a finding on the node.
type Severity int

const (
	// Info requires no action.
	Info Severity = iota
	// Warning means that the node works, but not as well as possible.
	Warning
	// Error means that a part does not work until it is repaired.
	Error
	// Refuse is an error with which the daemon does not start: its writes would have no
	// effect, or conflict with writes of another manager.
	Refuse
)

// String returns "info", "warning", "error" or "refuse".
func (s Severity) String() string {
	names := [...]string{"info", "warning", "error", "refuse"}
	if s < 0 || int(s) >= len(names) {
		return fmt.Sprintf("severity(%d)", int(s))
	}
	return names[s]
}

// MarshalText returns the text of String. The error is always nil.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText parses the text of MarshalText.
func (s *Severity) UnmarshalText(text []byte) error {
	for _, known := range []Severity{Info, Warning, Error, Refuse} {
		if known.String() == string(text) {
			*s = known
			return nil
		}
	}
	return fmt.Errorf("parse severity %q: not one of info, warning, error, refuse", text)
}

// Finding is a problem, or a fact without a required action.
type Finding struct {
	// Check is the stable name of the check that found it.
	Check    string   `json:"check"`
	Severity Severity `json:"severity"`
	// Subject is a file (with its key), a cgroup, a socket or a pool.
	Subject string `json:"subject"`
	// Found is the problem, with the value that was read.
	Found string `json:"found"`
	// Remedy is the required action; empty if no action is necessary.
	Remedy string `json:"remedy,omitempty"`
}

// New returns a finding without a check; remedy is empty if no action is necessary.
func New(s Severity, subject, found, remedy string) Finding {
	return Finding{Severity: s, Subject: subject, Found: found, Remedy: remedy}
}

// String returns the finding in one line: subject, problem, remedy.
func (f Finding) String() string {
	if f.Remedy == "" {
		return f.Subject + ": " + f.Found
	}
	return f.Subject + ": " + f.Found + ": " + f.Remedy
}

// Compare orders by descending severity, then by check and subject, so that equal hosts give
// equal output.
func Compare(a, b Finding) int {
	return cmp.Or(
		cmp.Compare(b.Severity, a.Severity),
		cmp.Compare(a.Check, b.Check),
		cmp.Compare(a.Subject, b.Subject),
		cmp.Compare(a.Found, b.Found),
	)
}
