package inspect

import (
	"fmt"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Audit describes the audits of a daemon: the search for tasks on CPUs of other owners.
type Audit struct {
	// Summary is one line: which audit runs, and the share of the live audit.
	Summary string `json:"summary"`
	// Interval is the interval of the sampled audit (audit.interval). It is empty if that is off.
	Interval string `json:"interval,omitempty"`
	// Live is the audit by the kernel's scheduler. It is absent with audit.live: false.
	Live *LiveAudit `json:"live,omitempty"`
}

// LiveAudit holds the results of the live audit since the daemon's start.
type LiveAudit struct {
	// Unavailable is the reason why the kernel does not load the program. Then only the sampled
	// audit runs, and the other fields are zero.
	Unavailable string `json:"unavailable,omitempty"`
	// Program is btf or tracepoint: loaded with or without the kernel's type information.
	Program string `json:"program,omitempty"`
	// CPUs are the exclusive CPUs that are watched now. Seconds is the sum of the time of CPUs.
	CPUs    cpuset.Set `json:"cpus"`
	Seconds float64    `json:"seconds"`
	// Share is the part of Seconds without foreign tasks, 0 to 1. Kernel threads that are bound to
	// their CPU do not count. It is absent in the first second.
	Share *float64 `json:"share,omitempty"`
	// Foreign holds the foreign tasks by kind: user, kernel_bound, kernel_other, unknown.
	Foreign []ForeignTime `json:"foreign,omitempty"`
	// Lost counts task switches that no finding names.
	Lost uint64 `json:"lost,omitempty"`
}

// ForeignTime is the CPU time of a kind of foreign tasks, in seconds and task switches.
type ForeignTime struct {
	Kind     string  `json:"kind"`
	Seconds  float64 `json:"seconds"`
	Switches uint64  `json:"switches"`
}

// Describe sets Summary. noLive is the reason why the live audit is off, if Live is nil.
func (a *Audit) Describe(noLive string) {
	sampled := "not sampled (audit.interval is off)"
	if a.Interval != "" {
		sampled = "sampled every " + a.Interval
	}
	l := a.Live
	switch {
	case l == nil:
		a.Summary = "audit: " + sampled + "; not live: " + noLive
		return
	case l.Unavailable != "":
		a.Summary = "audit: " + sampled + "; not live: " + strings.Join(strings.Split(l.Unavailable, "\n"), "; ")
		return
	}
	a.Summary = fmt.Sprintf("audit: live on %s, program %s, and %s", Sized(l.CPUs), l.Program, sampled)
	if l.Share != nil {
		a.Summary += fmt.Sprintf("; %s%% of %.0f CPU seconds without foreign tasks", percent(*l.Share), l.Seconds)
	}
	for _, f := range l.Foreign {
		if f.Switches > 0 || f.Seconds > 0 {
			a.Summary += fmt.Sprintf("; %s %.6fs in %d switches", f.Kind, f.Seconds, f.Switches)
		}
	}
}

// percent returns a share in percent. It rounds down: a share below 1 is never 100.
func percent(share float64) string {
	const digits = 1e7
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.5f", float64(int64(share*digits))/digits*100), "0"), ".")
}
