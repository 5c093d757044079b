package preflight

import (
	"fmt"
	"strings"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// besides is what stands in for a remedy by the other manager's configuration.
func besides(remedy, key string) string {
	return remedy + ", or set otherManagers." + key + ": standDown, and cpupoold leaves those containers alone"
}

// checkWorkloads: CRI-O's workloads do what cpupoold's management pool does,
// once, at a container's creation. Both together give each container two owners.
func checkWorkloads(e *evidence) []Finding {
	names := workload.Names{Domain: e.config.AnnotationDomain}
	var findings []Finding
	for _, w := range e.crio.Workloads {
		ours := ""
		for _, p := range e.config.Pools.Partitions {
			if w.Activation == names.TargetKey(p.Type) {
				ours = p.Type
			}
		}
		f := Finding{
			Severity: Refuse,
			Subject:  fmt.Sprintf("%s: crio.runtime.workloads.%s", w.Source, w.Name),
			Remedy:   besides("remove the table and restart CRI-O", "crioWorkloads"),
		}
		switch standDown := e.config.OtherManagers.CRIOWorkloads == config.StanceStandDown; {
		case standDown && w.Pins:
			f.Severity, f.Remedy = Info, ""
			f.Found = fmt.Sprintf("sets CPUs and shares of pods with the annotation %s: cpupoold leaves them alone (otherManagers.crioWorkloads)", w.Activation)
		case standDown:
			continue // CRI-O does nothing with it
		case ours != "":
			f.Found = fmt.Sprintf("is activated by the annotation %s, which is cpupoold's for workload type %s: CRI-O would place the same pods", w.Activation, ours)
		case w.Pins:
			f.Found = fmt.Sprintf("sets CPUs and shares of pods with the annotation %s: cpupoold would move them", w.Activation)
		default:
			continue
		}
		findings = append(findings, f)
	}
	return findings
}

// checkHighPerformance: what pods of such a handler ask CRI-O for writes the fields with
// which cpupoold keeps exclusive CPUs, after it.
func checkHighPerformance(e *evidence) []Finding {
	var findings []Finding
	for _, h := range e.crio.Handlers {
		annotations := h.SetsCPUs()
		if len(annotations) == 0 {
			continue
		}
		f := Finding{
			Severity: Refuse,
			Subject:  fmt.Sprintf("%s: crio.runtime.runtimes.%s", h.Source, h.Name),
			Found: fmt.Sprintf("allowed_annotations has %s: CRI-O writes the CPUs and partitions of pods of this handler that ask for it",
				strings.Join(annotations, " and ")),
			Remedy: besides("remove it from the list and restart CRI-O", "crioHighPerformance"),
		}
		if e.config.OtherManagers.CRIOHighPerformance == config.StanceStandDown {
			f.Severity, f.Remedy = Info, ""
			f.Found += "; cpupoold leaves those alone (otherManagers.crioHighPerformance)"
		}
		findings = append(findings, f)
	}
	return findings
}

func checkInfraCPUSet(e *evidence) []Finding {
	s := e.crio.InfraCPUSet
	if s.Value == "" {
		return nil
	}
	return []Finding{{
		Severity: Warning,
		Subject:  s.Source,
		Found:    fmt.Sprintf("crio.runtime.infra_ctr_cpuset is %q: CRI-O pins pause containers there, and cpupoold moves them to their pod's pool", s.Value),
		Remedy:   "remove the key and restart CRI-O",
	}}
}

func checkCRIOConfig(e *evidence) []Finding {
	var findings []Finding
	for _, f := range e.crio.Unreadable {
		findings = append(findings, Finding{
			Severity: Warning,
			Subject:  f.Name,
			Found:    fmt.Sprintf("cannot be understood, so it is not certain that CRI-O leaves CPUs alone: %s", cause(f.Err)),
			Remedy:   "repair the file: CRI-O will not start with it either",
		})
	}
	return findings
}
