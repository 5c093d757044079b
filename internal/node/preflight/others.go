package preflight

import (
	"fmt"
	"strings"

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

// checkTuned reports the active profiles of tuned. tuned writes no cpusets, but a profile can set
// the affinity of threads, interrupts and workqueues.
func checkTuned(e *evidence) []Finding {
	t := &e.tuned
	if t.PID != 0 && !t.Known {
		return []Finding{othermanagers.Tuned(fmt.Sprintf("tuned (process %d)", t.PID))}
	}
	if len(t.Profiles) == 0 {
		return nil
	}
	f := Finding{Severity: Info, Subject: "/etc/tuned/active_profile: " + strings.Join(t.Profiles, " ")}
	f.Found = "tuned does not run, but applies this profile at each start"
	if t.PID != 0 {
		f.Found = fmt.Sprintf("tuned runs (process %d) and applies this profile", t.PID)
	}
	if t.SetsPowerOnly() {
		f.Found += ", which sets frequency and C-states"
		return []Finding{f}
	}
	if t.PID != 0 {
		f.Severity = Warning
	}
	f.Found += ", which can set the affinity of threads, interrupts and workqueues"
	f.Remedy = "remove isolated_cores and groups with an affinity from the profile, because cpusets define the CPUs of threads; set interrupts and workqueues either in the profile or in cpupoold"
	return []Finding{f}
}
