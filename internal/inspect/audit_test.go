package inspect_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// TestAuditLine checks the line of each state of the audits.
func TestAuditLine(t *testing.T) {
	share := func(x float64) *float64 { return &x }
	for _, c := range []struct {
		audit *inspect.Audit
		want  string
	}{
		{&inspect.Audit{}, "audit: not sampled (audit.interval is off); not live: audit.live is false"},
		{&inspect.Audit{Interval: "5m0s"}, "audit: sampled every 5m0s; not live: audit.live is false"},
		{&inspect.Audit{Interval: "5m0s", Live: &inspect.LiveAudit{Unavailable: "no CAP_BPF\nno map"}}, "audit: sampled every 5m0s; not live: no CAP_BPF; no map"},
		{&inspect.Audit{Live: &inspect.LiveAudit{Program: "btf"}}, "audit: live on 0, program btf, and not sampled (audit.interval is off)"},
		{&inspect.Audit{Interval: "5m0s", Live: &inspect.LiveAudit{Program: "btf"}}, "audit: live on 0, program btf, and sampled every 5m0s"},
		{&inspect.Audit{Live: &inspect.LiveAudit{Program: "btf", CPUs: cpuset.Range(4, 5), Seconds: 1e6, Share: share(1)}},
			"audit: live on 2: 4-5, program btf, and not sampled (audit.interval is off); 100% of 1000000 CPU seconds without foreign tasks"},
		{&inspect.Audit{Live: &inspect.LiveAudit{Program: "tracepoint", CPUs: cpuset.Of(4), Seconds: 100, Share: share(0.99999999), Foreign: []inspect.ForeignTime{
			{Kind: "user", Seconds: 0.000001, Switches: 1}, {Kind: "kernel_bound"},
		}}}, "audit: live on 1: 4, program tracepoint, and not sampled (audit.interval is off); 99.99999% of 100 CPU seconds without foreign tasks; user 0.000001s in 1 switches"},
	} {
		if c.audit.Describe("audit.live is false"); c.audit.Summary != c.want {
			t.Errorf("%q; want %q", c.audit.Summary, c.want)
		}
	}
}
