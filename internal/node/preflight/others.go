package preflight

import (
	"fmt"
	"strings"

	"github.com/cpupoold/cpupoold/internal/node/managers"
	"github.com/cpupoold/cpupoold/internal/othermanagers"
)

// checkAnnotations reports pods that request CPUs from another manager. Their annotations show
// a manager whose process and files are not visible.
func checkAnnotations(e *evidence) []Finding {
	requests := othermanagers.Requests{}
	for _, pod := range e.runtime.pods {
		requests.Add(pod.Namespace+"/"+pod.Name, pod.Annotations)
	}
	return requests.Findings()
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
		return append(findings, othermanagers.Tuned(fmt.Sprintf("tuned (process %d)", t.PID)))
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
