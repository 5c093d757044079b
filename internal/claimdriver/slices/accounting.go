package slices

import "fmt"

// Accounting is the way in which the cluster counts the CPUs of claims as cpu of the Node.
type Accounting string

// Values of Accounting.
const (
	// Auto is Mapped where the API server and the kubelet support it, and otherwise Reserved.
	Auto Accounting = "auto"
	// Reserved leaves the cpu of the Node alone: the kubelet must reserve the CPUs of the list.
	Reserved Accounting = "reserved"
	// Mapped lets the scheduler and the kubelet add the CPUs of a claim to the cpu of its pod
	// (feature gate DRANodeAllocatableResources). Without their support, no devices are published.
	Mapped Accounting = "mapped"
)

// UnmarshalText accepts the values of Accounting. It makes the type usable as a flag.
func (a *Accounting) UnmarshalText(text []byte) error {
	switch v := Accounting(text); v {
	case Auto, Reserved, Mapped:
		*a = v
		return nil
	default:
		return fmt.Errorf("unknown accounting %q; use %s, %s or %s", text, Auto, Reserved, Mapped)
	}
}

// MarshalText returns the value as UnmarshalText accepts it.
func (a Accounting) MarshalText() ([]byte, error) { return []byte(a), nil }
