package othermanagers

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/internal/findings"
)

// Manager is a program that sets the CPUs of containers.
type Manager struct {
	// Program is the name of its file.
	Program string
	does    string
	plugin  bool     // an NRI plugin
	other   []string // further names of its DaemonSets, containers and images
}

// Is reports whether a name of a DaemonSet, a container or an image is a name of the manager.
func (m Manager) Is(name string) bool { return name == m.Program || slices.Contains(m.other, name) }

// Managers returns the managers that are recognized by the names of their programs.
func Managers() []Manager {
	return []Manager{
		{"nri-resource-policy-balloons", "places every container, over NRI", true, nil},
		{"nri-resource-policy-topology-aware", "places every container, over NRI", true, nil},
		{"dracpu", "places every container, over NRI", true, []string{"dra-driver-cpu"}},
		{"cpusetter", "is CPU-Pooler's: writes the cpuset of every container", false, []string{"cpu-setter"}},
		{"cmk.py", "is CMK: sets the affinities of processes in containers", false, nil},
		{"cmk", "is CMK: sets the affinities of processes in containers", false, nil},
		{"ctlplane", "is the CPU control plane plugin: writes the cpusets of containers", false, []string{"ctlplane-daemonset", "ctlplane-agent"}},
		{"katalyst-agent", "writes the cpusets of containers", false, nil},
		{"koordlet", "writes the cpusets of BestEffort pods and of pods that request CPUs from it", false, nil},
	}
}

// Finding returns the finding that the manager is active. The subject names its process or its
// DaemonSet. StandDown states that cpupoold skips containers with CPUs of a plugin.
func (m Manager) Finding(subject string, standDown bool) findings.Finding {
	f := findings.Finding{Subject: subject}
	switch {
	case !m.plugin:
		f.Severity, f.Found, f.Remedy = findings.Warning, m.does+": it and cpupoold overwrite each other's CPUs", "remove it from the node, or disable this in its configuration"
	case standDown:
		f.Severity = findings.Warning
		f.Found = m.does + ": cpupoold skips containers for which the plugin has set CPUs (otherManagers.nriPlugins)"
		f.Remedy = "give the plugin an index below 50, so that the runtime calls it before cpupoold; otherwise the runtime refuses containers whose cpuset both set"
	default:
		f.Severity = findings.Refuse
		f.Found = m.does + ": the runtime refuses containers whose cpuset two plugins set"
		f.Remedy = OrStandDown("remove it from the node", "nriPlugins")
	}
	return f
}

// Tuned returns the finding that tuned runs, and that its profile is unknown.
func Tuned(subject string) findings.Finding {
	return findings.New(findings.Info, subject,
		"runs, but its profile is not visible here: it may set interrupts, workqueues or the affinity of threads",
		"run cpupoold check on the host, or mount its /etc/tuned into the pod")
}

// Workload returns the finding that CRI-O places pods with an annotation.
func Workload(subject, annotation, remedy string) findings.Finding {
	return findings.New(findings.Refuse, subject,
		"sets CPUs and shares of pods with the annotation "+annotation+": cpupoold would move them",
		OrStandDown(remedy, "crioWorkloads"))
}

// OrStandDown returns a remedy with its alternative, a key of otherManagers.
func OrStandDown(remedy, key string) string {
	return remedy + ", or set otherManagers." + key + ": standDown, so that cpupoold skips those containers"
}

// Requests collects pods that request CPUs from other managers, by manager.
type Requests map[string]*request

type request struct {
	pod, annotation string // of the pod with the first name
	count           int
}

// requests lists annotations for other managers, by prefix of the key or suffix of the domain.
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

// Add adds the requests of a pod. cpupoold cannot defer to managers of annotations alone.
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
