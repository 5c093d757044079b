package workload

// interruptsPrefix stands before the domain in the annotation that keeps interrupts off,
// crioInterrupts is CRI-O's name for the same, for all containers of a pod; with a slash
// and a name behind it, for one.
const (
	interruptsPrefix = "irq-load-balancing."
	crioInterrupts   = "irq-load-balancing.crio.io"
)

// Interrupts is what a pod wants of the interrupts of devices on the CPUs that one of its
// containers has for itself.
type Interrupts string

// The values are those of CRI-O, which also takes "true" for InterruptsAway.
const (
	// InterruptsStay: nothing is asked for.
	InterruptsStay Interrupts = "enable"
	// InterruptsAway: none of the CPUs handles any.
	InterruptsAway Interrupts = "disable"
	// InterruptsHousekeeping: only the first CPU does, with its hardware threads.
	InterruptsHousekeeping Interrupts = "housekeeping"
)

// InterruptsKey is the name of the pod annotation that says whether the CPUs that a
// container has for itself handle interrupts of devices.
func (n Names) InterruptsKey(container string) string {
	return interruptsPrefix + n.domain() + "/" + container
}

// Interrupts returns what a pod asks for a container. The container's own annotation goes
// before the pod's; found is false where there is neither. A value that is not known is
// passed over.
func (n Names) Interrupts(annotations map[string]string, container string) (_ Interrupts, found bool) {
	for _, key := range []string{n.InterruptsKey(container), crioInterrupts + "/" + container, crioInterrupts} {
		if value, ok := annotations[key]; ok {
			if i, known := ParseInterrupts(value); known {
				return i, true
			}
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

// AsksAboutInterrupts says that an annotation of this name is about interrupts, in either
// form.
func (n Names) AsksAboutInterrupts(key string) bool {
	if key == crioInterrupts {
		return true
	}
	if _, ok := cutKey(key, interruptsPrefix, n.domain()); ok {
		return true
	}
	_, ok := cutKey(key, interruptsPrefix, "crio.io")
	return ok
}
