package workload_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/pkg/workload"
)

func TestPower(t *testing.T) {
	got := workload.Names{}.Power(map[string]string{
		"cpu-c-states.crio.io": "enable", "cpu-c-states.crio.io/app": "max_latency:10", "cpu-c-states.workload.openshift.io/other": "disable",
		"cpu-freq-governor.crio.io": "performance", "cpu-freq-governor.workload.openshift.io/app": "",
		"cpu-energy-preference.crio.io": "power", "cpu-energy-preference.workload.openshift.io/app": "balance_power",
	}, "app")
	want := workload.PowerAsked{
		CStates:    workload.PowerValue{Key: "cpu-c-states.crio.io/app", Value: "max_latency:10"},
		Governor:   workload.PowerValue{Key: "cpu-freq-governor.workload.openshift.io/app"},
		Preference: workload.PowerValue{Key: "cpu-energy-preference.workload.openshift.io/app", Value: "balance_power"},
	}
	if got != want {
		t.Errorf("Power: %+v, want %+v", got, want)
	}
	if got := (workload.Names{Domain: "example.org"}).Power(map[string]string{"cpu-c-states.example.org/app": "disable"}, "app"); got.CStates.Value != "disable" {
		t.Errorf("Power with another domain = %+v; want disable", got)
	}
	if got := (workload.Names{}).Power(map[string]string{"cpu-c-states.crio.io": "disable"}, "app"); got.CStates.Key != "cpu-c-states.crio.io" {
		t.Errorf("Power of the pod = %+v; want the key cpu-c-states.crio.io", got)
	}
}
