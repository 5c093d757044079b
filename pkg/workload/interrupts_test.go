package workload_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/pkg/workload"
)

func TestInterrupts(t *testing.T) {
	const crio, own = "irq-load-balancing.crio.io", "irq-load-balancing.workload.openshift.io/app"
	for name, tc := range map[string]struct {
		annotations map[string]string
		want        workload.Interrupts
		found       bool
	}{
		"nothing":           {nil, workload.InterruptsStay, false},
		"pod":               {map[string]string{crio: "disable"}, workload.InterruptsAway, true},
		"as it was once":    {map[string]string{crio: "true"}, workload.InterruptsAway, true},
		"housekeeping":      {map[string]string{crio: "housekeeping"}, workload.InterruptsHousekeeping, true},
		"container":         {map[string]string{crio: "disable", crio + "/app": "enable"}, workload.InterruptsStay, true},
		"another container": {map[string]string{crio + "/side": "disable"}, workload.InterruptsStay, false},
		"ours":              {map[string]string{own: "disable", crio + "/app": "enable"}, workload.InterruptsAway, true},
		"nonsense":          {map[string]string{crio: "off"}, workload.InterruptsStay, false},
		"nonsense first":    {map[string]string{own: "disabled", crio + "/app": "", crio: "disable"}, workload.InterruptsAway, true},
	} {
		if got, found := (workload.Names{}).Interrupts(tc.annotations, "app"); got != tc.want || found != tc.found {
			t.Errorf("%s: %s, %t; want %s, %t", name, got, found, tc.want, tc.found)
		}
	}
	other := workload.Names{Domain: "example.com"}
	if got, _ := other.Interrupts(map[string]string{own: "disable"}, "app"); got != workload.InterruptsStay {
		t.Errorf("Interrupts of another domain = %s; want InterruptsStay", got)
	}
	for key, want := range map[string]bool{
		crio: true, crio + "/app": true, own: true, "irq-load-balancing.example.com/app": false, "cpu-load-balancing.crio.io": false, crio + "x/y": false,
	} {
		if got := (workload.Names{}).AsksAboutInterrupts(key); got != want {
			t.Errorf("AsksAboutInterrupts(%s) = %t; want %t", key, got, want)
		}
	}
}
