package workload

// What stands before the domain in annotations about the power of a container's CPUs.
// CRI-O has the first two, with its own domain.
const (
	cStatesPrefix    = "cpu-c-states."
	governorPrefix   = "cpu-freq-governor."
	preferencePrefix = "cpu-energy-preference."
	crioDomain       = "crio.io"
)

// PowerAsked is what a pod asks of the CPUs that a container has for itself: values as
// they are written, empty for what it does not ask.
type PowerAsked struct {
	// CStates are the idle states that they may enter, Governor is that of their
	// frequency, Preference what the hardware prefers where it chooses that itself.
	CStates, Governor, Preference PowerValue
}

// PowerValue is an annotation: its key, and the value.
type PowerValue struct{ Key, Value string }

// Power returns what is asked for a container: by our annotation of it, by CRI-O's of it,
// or by CRI-O's of the pod, whichever comes first.
func (n Names) Power(annotations map[string]string, container string) PowerAsked {
	of := func(prefix string, crio bool) PowerValue {
		keys := []string{prefix + n.domain() + "/" + container}
		if crio {
			keys = append(keys, prefix+crioDomain+"/"+container, prefix+crioDomain)
		}
		for _, key := range keys {
			if value, ok := annotations[key]; ok {
				return PowerValue{key, value}
			}
		}
		return PowerValue{}
	}
	return PowerAsked{CStates: of(cStatesPrefix, true), Governor: of(governorPrefix, true), Preference: of(preferencePrefix, false)}
}
