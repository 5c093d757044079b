package preflight

import (
	"fmt"
	"strings"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/othermanagers"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// checkWorkloads reports workloads of CRI-O. They set CPUs once, when a container is created,
// as the management pool of cpupoold does. Two managers would place each container.
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
		f := othermanagers.Workload(fmt.Sprintf("%s: crio.runtime.workloads.%s", w.Source, w.Name), w.Activation, "remove the table and restart CRI-O")
		switch standDown := e.config.OtherManagers.CRIOWorkloads == config.StanceStandDown; {
		case standDown && w.Pins:
			f.Severity, f.Remedy = Info, ""
			f.Found = fmt.Sprintf("sets CPUs and shares of pods with the annotation %s: cpupoold skips them (otherManagers.crioWorkloads)", w.Activation)
		case standDown:
			continue // CRI-O does nothing with it
		case ours != "":
			f.Found = fmt.Sprintf("is activated by the annotation %s, which cpupoold uses for workload type %s: CRI-O would place the same pods", w.Activation, ours)
		case !w.Pins:
			continue
		}
		findings = append(findings, f)
	}
	return findings
}

// checkHighPerformance reports handlers with which pods make CRI-O write cpusets. CRI-O would
// overwrite exclusive CPUs.
func checkHighPerformance(e *evidence) []Finding {
	var findings []Finding
	for _, h := range e.crio.Handlers {
		annotations := h.SetsCPUs()
		if len(annotations) == 0 {
			continue
		}
		f := newFinding(Refuse, fmt.Sprintf("%s: crio.runtime.runtimes.%s", h.Source, h.Name),
			fmt.Sprintf("allowed_annotations has %s: CRI-O writes the CPUs and partitions of pods of this handler that have it",
				strings.Join(annotations, " and ")),
			othermanagers.OrStandDown("remove it from the list and restart CRI-O", "crioHighPerformance"))
		if e.config.OtherManagers.CRIOHighPerformance == config.StanceStandDown {
			f.Severity, f.Remedy = Info, ""
			f.Found += "; cpupoold skips those pods (otherManagers.crioHighPerformance)"
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
	return []Finding{newFinding(Warning, s.Source,
		fmt.Sprintf("crio.runtime.infra_ctr_cpuset is %q: CRI-O pins pause containers there, and cpupoold moves them to the pool of their pod", s.Value),
		"remove the key and restart CRI-O")}
}

func checkCRIOConfig(e *evidence) []Finding {
	var findings []Finding
	for _, f := range e.crio.Unreadable {
		findings = append(findings, newFinding(Warning, f.Name,
			fmt.Sprintf("cannot be parsed, so CRI-O may set CPUs: %s", cause(f.Err)),
			"repair the file: CRI-O will not start with it either"))
	}
	return findings
}
