package workload_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/pkg/workload"
)

func TestLoadBalancingOff(t *testing.T) {
	const own, crio = "cpu-load-balancing.workload.openshift.io/app", "cpu-load-balancing.crio.io"
	for name, c := range map[string]struct {
		annotations map[string]string
		want        bool
	}{
		"none":                 {nil, false},
		"own":                  {map[string]string{own: "disable"}, true},
		"of another":           {map[string]string{own + "2": "disable"}, false},
		"another value":        {map[string]string{own: "true"}, false},
		"of the pod":           {map[string]string{crio: "disable"}, true},
		"of the pod, other":    {map[string]string{crio: "Disable"}, false},
		"crio's own":           {map[string]string{crio + "/app": "disable"}, true},
		"own takes precedence": {map[string]string{own: "enable", crio: "disable"}, false},
	} {
		if got := (workload.Names{}).LoadBalancingOff(c.annotations, "app"); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
	if !(workload.Names{Domain: "example.org"}).LoadBalancingOff(map[string]string{"cpu-load-balancing.example.org/app": "disable"}, "app") {
		t.Error("LoadBalancingOff with another domain = false; want true")
	}
}
