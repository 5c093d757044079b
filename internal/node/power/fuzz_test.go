package power_test

import (
	"reflect"
	"testing"
	"testing/fstest"

	"github.com/cpupoold/cpupoold/internal/node/power"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// FuzzRead checks that Read returns the same for the same files, with any content. The plan
// of an owner has only knobs of its CPUs.
func FuzzRead(f *testing.F) {
	f.Add("0 1", "powersave", "performance powersave", "default power", "power", "1", "0")
	f.Add("", "", "", "", "", "", "")
	f.Add("0-65536", "x\n", " ", "\x00", "y", "18446744073709551616", "2")
	f.Fuzz(func(t *testing.T, related, governor, governors, preferences, preference, latency, disable string) {
		const policy, state = "devices/system/cpu/cpufreq/policy0/", "devices/system/cpu/cpu0/cpuidle/state0/"
		tree := fstest.MapFS{
			policy + "related_cpus": {Data: []byte(related)}, policy + "scaling_governor": {Data: []byte(governor)},
			policy + "scaling_available_governors": {Data: []byte(governors)}, policy + "energy_performance_available_preferences": {Data: []byte(preferences)},
			policy + "energy_performance_preference": {Data: []byte(preference)},
			state + "latency":                        {Data: []byte(latency)}, state + "disable": {Data: []byte(disable)}, state + "name": {Data: []byte("C1")},
		}
		m, err := power.Read(tree)
		if again, errAgain := power.Read(tree); !reflect.DeepEqual(m, again) || (err == nil) != (errAgain == nil) {
			t.Errorf("%+v, %v; and again %+v, %v", m, err, again, errAgain)
		}
		values, _ := power.Plan([]power.Owner{{Name: "a", CPUs: cpuset.Of(0), Ask: power.Ask{Governor: "performance", Limited: true}}}, m)
		for k, v := range values {
			if k.Name != "0" && k.Name != "0/0" || v != "performance" && v != "0" && v != "1" {
				t.Errorf("%s = %q", k, v)
			}
		}
	})
}

// FuzzParse checks that an annotation gives either a request or an error.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"enable", "disable", "max_latency:10", "max_latency:", "performance", "", "balance_power", "../x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v := workload.PowerValue{Key: "k", Value: s}
		for _, asked := range []workload.PowerAsked{{CStates: v}, {Governor: v}, {Preference: v}} {
			a, errs := power.Parse(asked, []power.Feature{power.CStates, power.Governor, power.Preference})
			if (len(errs) == 0) == a.Empty() {
				t.Errorf("%q: %+v, %v", s, a, errs)
			}
		}
	})
}
