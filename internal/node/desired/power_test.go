package desired_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/internal/node/managers"
	"github.com/cpupoold/cpupoold/internal/node/power"
	"github.com/cpupoold/cpupoold/internal/node/tune"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestPowerSettings checks the power settings that containers get for their exclusive CPUs. The
// configuration must allow them, and no hook of CRI-O may write them.
func TestPowerSettings(t *testing.T) {
	const crioStates, crioGovernor, own = "cpu-c-states.crio.io", "cpu-freq-governor.crio.io", "cpu-freq-governor.workload.openshift.io/app"
	machine := power.Machine{Idle: map[int][]power.State{1: {{Number: 0, Name: "POLL"}, {Number: 1, Name: "C6", Latency: 100}}}}
	for cpu := range 4 {
		machine.Policies = append(machine.Policies, power.Policy{Number: cpu, CPUs: cpuset.Of(cpu), Governors: []string{"performance", "powersave"}})
	}
	others := desired.NewOtherManagers(managers.CRIO{Handlers: []managers.Handler{{Name: "high-performance", Allowed: []string{crioStates, crioGovernor}}}})
	governor := map[tune.Knob]string{{Kind: power.KindGovernor, Name: "1"}: "performance"}
	states := map[tune.Knob]string{{Kind: power.KindCState, Name: "1/0"}: "0", {Kind: power.KindCState, Name: "1/1"}: "1"}
	both := []config.PowerFeature{config.PowerCStates, config.PowerGovernor}
	for name, tc := range map[string]struct {
		allowed     []config.PowerFeature
		annotations map[string]string
		handler     string
		want        map[tune.Knob]string
		problem     string
	}{
		"off":                  {annotations: map[string]string{crioGovernor: "performance"}},
		"no request":           {allowed: both},
		"CRI-O's name":         {allowed: both, annotations: map[string]string{crioGovernor: "performance"}, want: governor},
		"our name":             {allowed: both, annotations: map[string]string{own: "performance", crioGovernor: "powersave"}, want: governor},
		"idle states":          {allowed: both, annotations: map[string]string{crioStates: "max_latency:10"}, want: states},
		"one is not allowed":   {allowed: both[:1], annotations: map[string]string{crioStates: "disable", crioGovernor: "performance"}, want: states, problem: "does not have governor"},
		"invalid value":        {allowed: both, annotations: map[string]string{crioStates: "off", crioGovernor: "performance"}, want: governor, problem: "write enable, disable"},
		"unknown governor":     {allowed: both, annotations: map[string]string{crioGovernor: "ondemand"}, problem: "write one of performance, powersave"},
		"CRI-O does it":        {allowed: both, annotations: map[string]string{crioStates: "disable", crioGovernor: "performance"}, handler: "high-performance"},
		"CRI-O, but our name":  {allowed: both, annotations: map[string]string{own: "performance"}, handler: "high-performance", want: governor},
		"CRI-O does not do it": {allowed: both, annotations: map[string]string{crioGovernor: "performance"}, handler: "runc", want: governor},
	} {
		t.Run(name, func(t *testing.T) {
			s := desired.Settings{Config: &config.Config{Power: tc.allowed}}
			m := inventory.New(cgroup.DriverSystemd)
			m.PutPod(lookup.PodStatus{Pod: cri.Pod{ID: "sandbox", UID: "uid", Namespace: "ns", Name: "pod", Annotations: tc.annotations, RuntimeHandler: tc.handler}})
			m.PutContainer(lookup.ContainerStatus{Container: cri.Container{ID: "id", Name: "app", PodID: "sandbox"}})
			owners := []desired.Owner{{ID: "id", Name: "app", CPUs: cpuset.Of(1)}, {ID: "gone", Name: "app", CPUs: cpuset.Of(2)}, {Name: "du.service", Unit: true, CPUs: cpuset.Of(3)}}
			values, problems := s.PowerSettings(owners, m.Objects(), &others, machine)
			if !maps.Equal(values, tc.want) {
				t.Errorf("values %v; want %v", values, tc.want)
			}
			if (len(problems) == 1) != (tc.problem != "") || len(problems) > 1 {
				t.Fatalf("problems %v; want %q", problems, tc.problem)
			}
			if len(problems) == 1 {
				if p := problems[0]; p.Code != "PowerNotGiven" || p.PodUID != "uid" || p.Pod != "ns/pod" || p.Container != "app" || !strings.Contains(p.Text, tc.problem) {
					t.Errorf("problem %+v; want one of ns/pod app with %q", p, tc.problem)
				}
			}
		})
	}
}
