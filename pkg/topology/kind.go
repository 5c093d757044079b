package topology

import "fmt"

// CoreKind is the kind of a core of a hybrid machine.
type CoreKind int

const (
	// Unknown is the kind of every CPU of a machine that is not hybrid, or without this information.
	Unknown CoreKind = iota
	// Performance is a fast core: Intel P-core, the largest cores of Arm.
	Performance
	// Efficiency is any smaller core.
	Efficiency
)

// String returns "unknown", "performance" or "efficiency".
func (k CoreKind) String() string {
	switch k {
	case Performance:
		return "performance"
	case Efficiency:
		return "efficiency"
	default:
		return "unknown"
	}
}

// MarshalText returns the result of String. It never fails.
func (k CoreKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads the output of MarshalText.
func (k *CoreKind) UnmarshalText(text []byte) error {
	for _, kind := range []CoreKind{Unknown, Performance, Efficiency} {
		if kind.String() == string(text) {
			*k = kind
			return nil
		}
	}
	return fmt.Errorf("parse core kind %q: not one of unknown, performance, efficiency", text)
}
