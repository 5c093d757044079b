package preflight

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/internal/node/managers"
)

// checkAnnotations: pods that ask another manager for CPUs tell of one that is not found
// by its process or its files, because it is away at the moment, or runs where that cannot
// be seen.
func checkAnnotations(e *evidence) []Finding {
	type of struct{ first, annotation string }
	first, count := make(map[string]of), make(map[string]int)
	for _, pod := range e.runtime.pods {
		for _, asked := range managers.Asks(pod.Annotations) {
			name := pod.Namespace + "/" + pod.Name
			if is, known := first[asked.Manager]; !known || name < is.first {
				first[asked.Manager] = of{name, asked.Annotation}
			}
			count[asked.Manager]++
		}
	}
	var findings []Finding
	for _, manager := range slices.Sorted(maps.Keys(first)) {
		is, more := first[manager], ""
		if n := count[manager] - 1; n > 0 {
			more = fmt.Sprintf(" (and %d more)", n)
		}
		findings = append(findings, Finding{
			Severity: Warning,
			Subject:  fmt.Sprintf("pod %s%s", is.first, more),
			Found: fmt.Sprintf("asks %s for CPUs (annotation %s): cpupoold places it as any other pod, and if %s runs the two undo each other's work",
				manager, is.annotation, manager),
			Remedy: fmt.Sprintf("remove %s from the node, or the annotation from its pods", manager),
		})
	}
	return findings
}

// checkTuned: what tuned writes is beside cpusets, and decides what they are worth.
// Nearly every profile sets frequency; that alone is for information.
func checkTuned(e *evidence) []Finding {
	var findings []Finding
	t := &e.tuned
	for _, f := range t.Unreadable {
		findings = append(findings, Finding{
			Severity: Warning,
			Subject:  f.Name,
			Found:    fmt.Sprintf("cannot be understood, so it is not certain what tuned sets: %s", cause(f.Err)),
			Remedy:   "repair the file, or choose a profile that there is (tuned-adm list)",
		})
	}
	if t.PID != 0 && !t.Known {
		return append(findings, Finding{
			Severity: Info,
			Subject:  fmt.Sprintf("tuned (process %d)", t.PID),
			Found:    "runs, and its profile cannot be seen from here: whether it sets interrupts, workqueues or the affinity of threads is not known",
			Remedy:   "run cpupoold check on the host, or mount its /etc/tuned and /usr/lib/tuned into the pod",
		})
	}
	if len(t.Settings) == 0 {
		return findings
	}
	state := fmt.Sprintf("runs (process %d) and sets", t.PID)
	if t.PID == 0 {
		state = "does not run; when it did, it has set, and when it is started it sets"
	}
	profiles := "/etc/tuned/active_profile: " + strings.Join(t.Profiles, " ")
	for _, about := range []struct {
		severity Severity
		aspects  []managers.Aspect
		remedy   string
	}{
		{Warning, []managers.Aspect{managers.Threads}, "remove isolated_cores and groups with an affinity from the profile: cpusets say where threads may run, and tuned takes shared containers and host services off the CPUs that it is given"},
		{Warning, []managers.Aspect{managers.Interrupts, managers.Workqueues, managers.Services},
			"let one of the two do it: leave cpupoold's settings for these off, or remove those from the profile; where both do, the CPUs must be the guaranteed ones"},
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

// describe lists settings by aspect.
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
