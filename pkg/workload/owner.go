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

// Interrupts is a pod's request for the interrupts of devices on the exclusive CPUs of one of
// its containers.
type Interrupts string

// CRI-O defines the values, and also accepts "true" for InterruptsAway.
const (
	InterruptsStay         Interrupts = valueOn        // no request.
	InterruptsAway         Interrupts = valueOff       // none of the CPUs handles any.
	InterruptsHousekeeping Interrupts = "housekeeping" // only the first CPU does, with its hardware threads
)

// Interrupts returns a pod's request for a container. The container's own annotation takes
// precedence over the pod's; found is false without either. Unknown values are
// ignored.
func (n Names) Interrupts(annotations map[string]string, container string) (_ Interrupts, found bool) {
	for form := range crioPodForm + 1 {
		if i, known := ParseInterrupts(annotations[n.ownerKey(interruptsPrefix, container, form)]); known {
			return i, true
		}
	}
	return InterruptsStay, false
}

// ParseInterrupts reads a value; it returns InterruptsStay and false for an unknown value.
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

// AsksAboutInterrupts reports whether an annotation of this name is about interrupts, in any
// form.
func (n Names) AsksAboutInterrupts(key string) bool {
	_, ours := cutKey(key, interruptsPrefix, n.domain())
	_, crio := cutKey(key, interruptsPrefix, crioDomain)
	return ours || crio || key == interruptsPrefix+crioDomain
}

// Mixed reports whether a pod requests shared CPUs for a container in addition to exclusive CPUs.
// CRI-O's annotation counts without ours; it has no form for all containers of a pod. key is the
// annotation that decides, "" without one. valid is false for a value that is neither
// enable nor disable, which requests none.
func (n Names) Mixed(annotations map[string]string, container string) (asks bool, key string, valid bool) {
	if len(annotations) == 0 {
		return false, "", true
	}
	key, value := n.owner(annotations, mixedPrefix, container, crioContainerForm)
	return value == valueOn, key, key == "" || value == valueOn || value == valueOff
}

// PowerAsked is a pod's power request for the exclusive CPUs of a container: unparsed values,
// empty without a request.
type PowerAsked struct {
	// CStates are the idle states that the CPUs may enter. Governor controls their
	// frequency. Preference guides hardware that chooses the frequency itself.
	CStates, Governor, Preference PowerValue
}

// PowerValue is an annotation: its key, and the value.
type PowerValue struct{ Key, Value string }

// Power returns the power request for a container: from our annotation for it, from CRI-O's
// for it, or from CRI-O's for the pod, whichever comes first.
func (n Names) Power(annotations map[string]string, container string) PowerAsked {
	of := func(prefix string, last int) (v PowerValue) {
		v.Key, v.Value = n.owner(annotations, prefix, container, last)
		return v
	}
	return PowerAsked{CStates: of(cStatesPrefix, crioPodForm), Governor: of(governorPrefix, crioPodForm), Preference: of(preferencePrefix, ourForm)}
}
