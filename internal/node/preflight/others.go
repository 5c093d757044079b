package preflight

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/internal/node/managers"
)

// checkAnnotations reports pods that request CPUs from another manager. Their annotations show
// a manager whose process and files are not visible.
func checkAnnotations(e *evidence) []Finding {
	type request struct{ pod, annotation string }
	first, count := make(map[string]request), make(map[string]int)
	for _, pod := range e.runtime.pods {
		for _, asked := range managers.Asks(pod.Annotations) {
			name := pod.Namespace + "/" + pod.Name
			if r, known := first[asked.Manager]; !known || name < r.pod {
				first[asked.Manager] = request{name, asked.Annotation}
			}
			count[asked.Manager]++
		}
	}
	var findings []Finding
	for _, manager := range slices.Sorted(maps.Keys(first)) {
		r, more := first[manager], ""
		if n := count[manager] - 1; n > 0 {
			more = fmt.Sprintf(" (and %d more)", n)
		}
		findings = append(findings, Finding{
			Severity: Warning,
			Subject:  fmt.Sprintf("pod %s%s", r.pod, more),
			Found: fmt.Sprintf("requests CPUs from %s (annotation %s): cpupoold places it as any other pod; if %s runs, it and cpupoold overwrite each other's CPUs",
				manager, r.annotation, manager),
			Remedy: fmt.Sprintf("remove %s from the node, or the annotation from its pods", manager),
		})
	}
	return findings
}

// checkTuned reports settings of tuned that affect CPUs of containers, although tuned writes
// no cpusets. Nearly every profile sets frequencies, so that alone is Info.
func checkTuned(e *evidence) []Finding {
	var findings []Finding
	t := &e.tuned
	for _, f := range t.Unreadable {
		findings = append(findings, Finding{
			Severity: Warning,
			Subject:  f.Name,
			Found:    fmt.Sprintf("cannot be parsed, so the settings of tuned are unknown: %s", cause(f.Err)),
			Remedy:   "repair the file, or choose an existing profile (tuned-adm list)",
		})
	}
	if t.PID != 0 && !t.Known {
		return append(findings, Finding{
			Severity: Info,
			Subject:  fmt.Sprintf("tuned (process %d)", t.PID),
			Found:    "runs, but its profile is not visible here: it may set interrupts, workqueues or the affinity of threads",
			Remedy:   "run cpupoold check on the host, or mount its /etc/tuned and /usr/lib/tuned into the pod",
		})
	}
	if len(t.Settings) == 0 {
		return findings
	}
	state := fmt.Sprintf("runs (process %d) and sets", t.PID)
	if t.PID == 0 {
		state = "does not run, but sets at each start"
	}
	profiles := "/etc/tuned/active_profile: " + strings.Join(t.Profiles, " ")
	for _, about := range []struct {
		severity Severity
		aspects  []managers.Aspect
		remedy   string
	}{
		{Warning, []managers.Aspect{managers.Threads}, "remove isolated_cores and groups with an affinity from the profile: cpusets define the CPUs of threads, and tuned moves shared containers and host services off the isolated CPUs"},
		{Warning, []managers.Aspect{managers.Interrupts, managers.Workqueues, managers.Services},
			"let only one program set them: disable these settings in cpupoold, or remove them from the profile; if both set them, use the guaranteed CPUs in the profile"},
		{Info, []managers.Aspect{managers.Power, managers.BootCPUs}, ""},
	} {
		settings := t.Of(about.aspects...)
		if len(settings) == 0 {
			continue
		}
		f := Finding{Severity: about.severity, Subject: profiles, Found: "tuned " + state + " " + describe(settings), Remedy: about.remedy}
		if t.PID == 0 && f.Severity == Warning {
			f.Severity = Info
		}
		findings = append(findings, f)
	}
	return findings
}

// describe returns a list of settings, grouped by aspect.
func describe(settings []managers.TunedSetting) string {
	var parts []string
	for i, s := range settings {
		text := fmt.Sprintf("%s=%s", s.Key, s.Value)
		if i == 0 || settings[i-1].Aspect != s.Aspect {
			parts = append(parts, fmt.Sprintf("%s (%s", s.Aspect, text))
		} else {
			parts[len(parts)-1] += ", " + text
		}
	}
	return strings.Join(parts, "), ") + ")"
}
