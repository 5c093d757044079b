package workload_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/pkg/workload"
)

func TestMixed(t *testing.T) {
	const ours, crio = "cpu-shared.workload.openshift.io/app", "cpu-shared.crio.io/app"
	for name, c := range map[string]struct {
		names       workload.Names
		annotations map[string]string
		asks        bool
		key         string
		invalid     bool
	}{
		"nothing said":          {},
		"another's":             {annotations: map[string]string{crio + "2": "enable", ours + "2": "enable"}},
		"of the whole pod":      {annotations: map[string]string{"cpu-shared.crio.io": "enable", "cpu-shared.workload.openshift.io": "enable"}},
		"CRI-O's":               {annotations: map[string]string{crio: "enable"}, asks: true, key: crio},
		"ours":                  {annotations: map[string]string{ours: "enable"}, asks: true, key: ours},
		"ours takes precedence": {annotations: map[string]string{ours: "disable", crio: "enable"}, key: ours},
		"off":                   {annotations: map[string]string{crio: "disable"}, key: crio},
		"true":                  {annotations: map[string]string{crio: "true"}, key: crio, invalid: true},
		"empty":                 {annotations: map[string]string{ours: ""}, key: ours, invalid: true},
		"case":                  {annotations: map[string]string{ours: "Enable"}, key: ours, invalid: true},
		"own domain": {names: workload.Names{Domain: "example.org"}, key: "cpu-shared.example.org/app", asks: true,
			annotations: map[string]string{"cpu-shared.example.org/app": "enable", ours: "disable"}},
	} {
		asks, key, valid := c.names.Mixed(c.annotations, "app")
		if asks != c.asks || key != c.key || valid == c.invalid {
			t.Errorf("%s: Mixed = %t, %q, %t, want %t, %q, %t", name, asks, key, valid, c.asks, c.key, !c.invalid)
		}
	}
}
