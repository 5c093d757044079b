package workload

// mixedPrefix stands before the domain in the annotation that asks for shared CPUs
// beside a container's own, mixedOn and mixedOff are its values. crioMixed is CRI-O's
// name for the same (cri-o, pkg/annotations/v2); it knows the first value only, and no
// form for all containers of a pod.
const (
	mixedPrefix = "cpu-shared."
	mixedOn     = "enable"
	mixedOff    = "disable"
	crioMixed   = mixedPrefix + "crio.io/"
)

// MixedKey is the name of the pod annotation that asks for shared CPUs beside those that
// a container has for itself.
func (n Names) MixedKey(container string) string {
	return mixedPrefix + n.domain() + "/" + container
}

// Mixed says whether a pod asks for shared CPUs beside those that the container has for
// itself: in our name, or else in CRI-O's. key is the annotation that says so, empty if
// there is none; valid is false for a value that is neither enable nor disable, which
// asks for nothing.
func (n Names) Mixed(annotations map[string]string, container string) (asks bool, key string, valid bool) {
	if len(annotations) == 0 {
		return false, "", true
	}
	for _, key := range []string{n.MixedKey(container), crioMixed + container} {
		if value, ok := annotations[key]; ok {
			return value == mixedOn, key, value == mixedOn || value == mixedOff
		}
	}
	return false, "", true
}
