package inventory_test

import (
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/managers"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestRecordProblems checks which values of the variable make CRI-O record other CPUs, and
// that the problem quotes a bounded part of the value.
func TestRecordProblems(t *testing.T) {
	for _, test := range []struct {
		value        string
		crio, others bool
	}{
		{"", true, false},
		{"2-3", true, false},
		{"3", true, false},
		{"2-4", true, true},
		{"\x1b[2J\n", true, true},
		{strings.Repeat("2,", 100_000) + "2", true, true},
		{"4", false, false},
	} {
		w := newWorld(t)
		if test.crio {
			w.host.CRIO = func() managers.CRIO { return managers.CRIO{} }
		}
		_, c := w.run(cri.Running)
		c.SharedCPUs = cri.SharedCPUs([]string{cri.SharedCPUsVariable + "=" + test.value})
		w.runtime.containers["c"] = c
		w.list()
		target := cgroup.Target{Path: w.Container("c").Path, Container: "c", CPUs: cpuset.Range(2, 3)}
		if target.NoCRI = w.Container("c").RecordsOthers(target.CPUs); target.NoCRI != test.others {
			t.Errorf("%.20q: records others: %t; want %t", test.value, target.NoCRI, test.others)
		}
		all := w.RecordProblems([]cgroup.Target{{Path: "a"}, target})
		if !test.others {
			if len(all) > 0 {
				t.Errorf("%.20q: problems %v", test.value, all)
			}
			continue
		}
		if len(all) != 1 || all[0].PodUID != "u-1" || all[0].Container != "app" || len(all[0].Text) > 500 || strings.ContainsAny(all[0].Text, "\x1b\n") ||
			!strings.Contains(all[0].Text, `OPENSHIFT_SHARED_CPUS="`) || !strings.Contains(all[0].Text, "CPUs 2-3") {
			t.Errorf("%.20q: problems %v", test.value, all)
		}
	}
}
