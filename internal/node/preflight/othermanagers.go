package preflight

import (
	"bytes"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/findings"
	"github.com/cpupoold/cpupoold/internal/othermanagers"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// checkWorkloads reports workloads of CRI-O: as a management pool, they set CPUs at creation.
func checkWorkloads(e *evidence) {
	names := workload.Names{Domain: e.config.AnnotationDomain}
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
		e.report(f)
	}
}

// checkHighPerformance reports handlers with which CRI-O would overwrite exclusive CPUs.
func checkHighPerformance(e *evidence) {
	for _, h := range e.crio.Handlers {
		annotations := h.SetsCPUs()
		if len(annotations) == 0 {
			continue
		}
		f := findings.New(Refuse, fmt.Sprintf("%s: crio.runtime.runtimes.%s", h.Source, h.Name),
			fmt.Sprintf("allowed_annotations has %s: CRI-O writes the CPUs and partitions of pods of this handler that have it",
				strings.Join(annotations, " and ")),
			othermanagers.OrStandDown("remove it from the list and restart CRI-O", "crioHighPerformance"))
		if e.config.OtherManagers.CRIOHighPerformance == config.StanceStandDown {
			f.Severity, f.Remedy = Info, ""
			f.Found += "; cpupoold skips those pods (otherManagers.crioHighPerformance)"
		}
		e.report(f)
	}
}

func checkInfraCPUSet(e *evidence) {
	if s := e.crio.InfraCPUSet; s.Value != "" {
		e.add(Warning, s.Source,
			fmt.Sprintf("crio.runtime.infra_ctr_cpuset is %q: CRI-O pins pause containers there, and cpupoold moves them to the pool of their pod", s.Value),
			"remove the key and restart CRI-O")
	}
}

func checkCRIOConfig(e *evidence) {
	for _, f := range e.crio.Unreadable {
		e.add(Warning, f.Name,
			fmt.Sprintf("cannot be parsed, so CRI-O may set CPUs: %s", cause(f.Err)),
			"repair the file: CRI-O will not start with it either")
	}
}

// checkAnnotations reports requests to managers whose process and files are not visible.
func checkAnnotations(e *evidence) {
	requests := othermanagers.Requests{}
	for _, pod := range e.runtime.pods {
		requests.Add(pod.Namespace+"/"+pod.Name, pod.Annotations)
	}
	e.report(requests.Findings()...)
}

// checkTuned reports active profiles of tuned, which set no cpusets, but may set affinities.
func checkTuned(e *evidence) {
	t := &e.tuned
	severity, subject := Info, "/etc/tuned/active_profile: "+strings.Join(t.Profiles, " ")
	found := "tuned does not run, but applies this profile at each start"
	if t.PID != 0 {
		severity, found = Warning, fmt.Sprintf("tuned runs (process %d) and applies this profile", t.PID)
	}
	switch {
	case t.PID != 0 && !t.Known:
		e.report(othermanagers.Tuned(fmt.Sprintf("tuned (process %d)", t.PID)))
	case len(t.Profiles) == 0:
	case t.SetsPowerOnly():
		e.add(Info, subject, found+", which sets frequency and C-states", "")
	default:
		e.add(severity, subject, found+", which can set the affinity of threads, interrupts and workqueues",
			"remove isolated_cores and groups with an affinity from the profile, because cpusets define the CPUs of threads; set interrupts and workqueues either in the profile or in cpupoold")
	}
}

// programOf returns the program or Python script of a command line, without the index of an NRI
// plugin (NN-NAME).
func programOf(cmdline []byte) string {
	program, rest, _ := bytes.Cut(cmdline, []byte{0})
	base := path.Base(string(program))
	if strings.HasPrefix(base, "python") {
		for argument := range bytes.SplitSeq(rest, []byte{0}) {
			if !bytes.HasPrefix(argument, []byte("-")) { // an option of the interpreter
				base = path.Base(string(argument))
				break
			}
		}
	}
	if len(base) > 3 && base[2] == '-' && isDigit(base[0]) && isDigit(base[1]) {
		base = base[3:]
	}
	return base
}

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

// checkPlugins searches processes, because NRI does not report the other plugins.
func checkPlugins(e *evidence) {
	running := make(map[string]int)
	for _, name := range directories(e.root, "/proc") {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		b, _ := readFile(e.root, path.Join("/proc", name, "cmdline")) // the process may have ended, or access is denied
		if base := programOf(b); running[base] == 0 {
			running[base] = pid
		}
	}
	standDown := e.config.OtherManagers.NRIPlugins == config.StanceStandDown
	for _, m := range othermanagers.Managers() {
		if pid := running[m.Program]; pid != 0 {
			e.report(m.Finding(fmt.Sprintf("%s (process %d)", m.Program, pid), standDown))
		}
	}
}
