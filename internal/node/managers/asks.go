package managers

import (
	"maps"
	"slices"
	"strings"
)

// Asked is what a pod asks of a manager of CPUs that cpupoold has no way to stand down
// for: nothing but the annotation tells.
type Asked struct {
	// Manager is its name, Annotation the key.
	Manager, Annotation string
}

// asking are the beginnings of annotations, or for those with a point first of what comes
// after a name, by which pods ask for CPUs.
func asking() []struct{ manager, prefix, domain string } {
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

// Asks are the managers whose annotations a pod has, each once, in the order of the
// annotations' names.
func Asks(annotations map[string]string) []Asked {
	var all []Asked
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		domain, _, _ := strings.Cut(key, "/")
		if strings.HasPrefix(domain, "cpu.preserve.") || strings.HasPrefix(domain, "memory.preserve.") {
			continue // asks nri-plugins to leave it alone
		}
		for _, a := range asking() {
			if a.prefix != "" && !strings.HasPrefix(key, a.prefix) || a.domain != "" && !strings.HasSuffix(domain, a.domain) {
				continue
			}
			if !slices.ContainsFunc(all, func(b Asked) bool { return b.Manager == a.manager }) {
				all = append(all, Asked{a.manager, key})
			}
			break
		}
	}
	return all
}
