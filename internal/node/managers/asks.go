package managers

import (
	"maps"
	"slices"
	"strings"
)

// Asked is the request of a pod to another CPU manager. Only the annotation of the pod
// shows it, so cpupoold cannot defer to the manager.
type Asked struct {
	// Manager is the name of the manager, Annotation the key.
	Manager, Annotation string
}

// requests returns the annotations with which pods request CPUs from other managers: the
// prefix of the key, or the suffix of its domain.
func requests() []struct{ manager, prefix, domain string } {
	return []struct{ manager, prefix, domain string }{
		{"CPU-Pooler", "nokia.k8s.io/cpus", ""},
		{"CMK", "cmk.intel.com/", ""},
		{"katalyst", "katalyst.kubewharf.io/", ""},
		{"koordinator", "scheduling.koordinator.sh/resource-s", ""}, // -spec, -status
		{"balloons (nri-plugins)", "", ".balloons.resource-policy.nri.io"},
		{"topology-aware (nri-plugins)", "", ".topology-aware.resource-policy.nri.io"},
		{"nri-plugins", "", ".resource-policy.nri.io"},
		{"CRI Resource Manager", "", "cri-resource-manager.intel.com"},
	}
}

// Asks returns the managers whose annotations a pod has. Each occurs once, in the order of
// the keys.
func Asks(annotations map[string]string) []Asked {
	var all []Asked
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		manager := managerOf(key)
		if manager != "" && !slices.ContainsFunc(all, func(b Asked) bool { return b.Manager == manager }) {
			all = append(all, Asked{manager, key})
		}
	}
	return all
}

// IsRequest reports whether an annotation of this name requests CPUs from another manager.
func IsRequest(key string) bool { return managerOf(key) != "" }

// managerOf returns the manager from which an annotation requests CPUs; empty for none.
func managerOf(key string) string {
	domain, _, _ := strings.Cut(key, "/")
	if strings.HasPrefix(domain, "cpu.preserve.") || strings.HasPrefix(domain, "memory.preserve.") {
		return "" // asks nri-plugins not to place the pod
	}
	for _, a := range requests() {
		if (a.prefix == "" || strings.HasPrefix(key, a.prefix)) && (a.domain == "" || strings.HasSuffix(domain, a.domain)) {
			return a.manager
		}
	}
	return ""
}
