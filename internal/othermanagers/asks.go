package othermanagers

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/internal/findings"
)

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

// Add adds the requests of a pod with the name namespace/name. Only its annotations show them,
// so cpupoold cannot defer to the manager.
func (r Requests) Add(pod string, annotations map[string]string) {
	seen := make(map[string]bool)
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		manager := managerOf(key)
		if manager == "" || seen[manager] {
			continue
		}
		seen[manager] = true
		first := r[manager]
		if first == nil {
			first = &request{pod: pod, annotation: key}
			r[manager] = first
		}
		if first.count++; pod < first.pod {
			first.pod, first.annotation = pod, key
		}
	}
}

// Findings returns a finding for each manager.
func (r Requests) Findings() []findings.Finding {
	var all []findings.Finding
	for _, manager := range slices.Sorted(maps.Keys(r)) {
		first, more := r[manager], ""
		if n := first.count - 1; n > 0 {
			more = fmt.Sprintf(" (and %d more)", n)
		}
		all = append(all, findings.New(findings.Warning, fmt.Sprintf("pod %s%s", first.pod, more),
			fmt.Sprintf("requests CPUs from %s (annotation %s): cpupoold places it as any other pod; if %s runs, it and cpupoold overwrite each other's CPUs",
				manager, first.annotation, manager),
			fmt.Sprintf("remove %s from the node, or the annotation from its pods", manager)))
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
