package workload

// Annotations about the exclusive CPUs of a container. The name of each is a prefix, the domain, a
// slash and the name of the container. CRI-O has the first five with its own domain, for one container or,
// without the slash, for all containers of the pod (cri-o, pkg/annotations/v2).
const (
	balancingPrefix  = "cpu-load-balancing."
	interruptsPrefix = "irq-load-balancing."
	mixedPrefix      = "cpu-shared."
	cStatesPrefix    = "cpu-c-states."
	governorPrefix   = "cpu-freq-governor."
	preferencePrefix = "cpu-energy-preference."
	crioDomain       = "crio.io"
)

// Values of several of them.
const (
	valueOn  = "enable"
	valueOff = "disable"
)

// Forms of a name, in the order in which they count.
const (
	ourForm = iota
	crioContainerForm
	crioPodForm
)

func (n Names) ownerKey(prefix, container string, form int) string {
	switch form {
	case crioContainerForm:
		return prefix + crioDomain + "/" + container
	case crioPodForm:
		return prefix + crioDomain
	}
	return prefix + n.domain() + "/" + container
}

// owner returns the first annotation of a container in the forms up to last; the key is empty without one.
func (n Names) owner(annotations map[string]string, prefix, container string, last int) (key, value string) {
	for form := range last + 1 {
		key := n.ownerKey(prefix, container, form)
		if value, ok := annotations[key]; ok {
			return key, value
		}
	}
	return "", ""
}

// LoadBalancingOff reports whether a pod requests that the kernel's scheduler does not balance
// load on the exclusive CPUs of the container. Any value but "disable" changes nothing, as with CRI-O.
func (n Names) LoadBalancingOff(annotations map[string]string, container string) bool {
	_, value := n.owner(annotations, balancingPrefix, container, crioPodForm)
	return value == valueOff
}

// Interrupts is what a pod wants of the interrupts of devices on the CPUs that one of its
// containers has for itself.
type Interrupts string

// The values are those of CRI-O, which also takes "true" for InterruptsAway.
const (
	InterruptsStay         Interrupts = valueOn        // nothing is asked for.
	InterruptsAway         Interrupts = valueOff       // none of the CPUs handles any.
	InterruptsHousekeeping Interrupts = "housekeeping" // only the first CPU does, with its hardware threads
)

// Interrupts returns what a pod asks for a container. The container's own annotation goes
// before the pod's; found is false where there is neither. A value that is not known is
// passed over.
func (n Names) Interrupts(annotations map[string]string, container string) (_ Interrupts, found bool) {
	for form := range crioPodForm + 1 {
		if i, known := ParseInterrupts(annotations[n.ownerKey(interruptsPrefix, container, form)]); known {
			return i, true
		}
	}
	return InterruptsStay, false
}

// ParseInterrupts reads a value; what is not known is InterruptsStay and false.
func ParseInterrupts(value string) (Interrupts, bool) {
	switch i := Interrupts(value); i {
	case InterruptsStay, InterruptsAway, InterruptsHousekeeping:
		return i, true
	case "true":
		return InterruptsAway, true
	default:
		return InterruptsStay, false
	}
}

// AsksAboutInterrupts says that an annotation of this name is about interrupts, in any
// form.
func (n Names) AsksAboutInterrupts(key string) bool {
	_, ours := cutKey(key, interruptsPrefix, n.domain())
	_, crio := cutKey(key, interruptsPrefix, crioDomain)
	return ours || crio || key == interruptsPrefix+crioDomain
}

// Mixed says whether a pod asks for shared CPUs beside those that the container has for
// itself: in our name, or else in CRI-O's, which has no form for all containers of a pod. key is the
// annotation that says so, empty if there is none; valid is false for a value that is neither
// enable nor disable, which asks for nothing.
func (n Names) Mixed(annotations map[string]string, container string) (asks bool, key string, valid bool) {
	if len(annotations) == 0 {
		return false, "", true
	}
	key, value := n.owner(annotations, mixedPrefix, container, crioContainerForm)
	return value == valueOn, key, key == "" || value == valueOn || value == valueOff
}

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
	of := func(prefix string, last int) (v PowerValue) {
		v.Key, v.Value = n.owner(annotations, prefix, container, last)
		return v
	}
	return PowerAsked{CStates: of(cStatesPrefix, crioPodForm), Governor: of(governorPrefix, crioPodForm), Preference: of(preferencePrefix, ourForm)}
}
