package quota_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cpupoold/cpupoold/internal/plugin/quota"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

func TestOfQuota(t *testing.T) {
	const (
		shared     = "openshift.io/shared-cpus"
		guaranteed = "openshift.io/guaranteed-cpus"
		cores      = "management.workload.openshift.io/cores"
		refused    = "refuses pods of a workload type, whose containers have no cpu"
		elsewhere  = ", or keep pods of workload types in a namespace without it"
	)
	for _, c := range []struct{ typ, key, limit, text, remedy string }{
		{"", "requests." + guaranteed, "8", "admits no exclusive CPU, because the unit is a thousandth of a CPU", "write 8k, as much as cpu: 8"},
		{"", "requests." + guaranteed, "500m", "admits no exclusive CPU, because the unit is a thousandth of a CPU", "write 500, as much as cpu: 500m"},
		{"", "requests." + guaranteed, "4500", "admits exclusive CPUs up to 4k, because each counts 1k", "write 4k"},
		{"", "requests." + guaranteed, "4k", "", ""},
		{"", "requests." + guaranteed, "0", "", ""},
		{"", "requests." + guaranteed, "-8k", "admits no pod with this resource, because it is negative", "write an amount of at least 0"},
		{"", "requests." + guaranteed, "9223372036854775807", "", ""},
		{"", "requests." + shared, "16", "admits less than a tenth of a CPU, because the unit is a thousandth of a CPU", "write 16k, as much as cpu: 16"},
		{"", "requests." + shared, "100", "", ""},
		{"", "requests." + cores, "1", "admits less than a tenth of a CPU, because the unit is a thousandth of a CPU", "write 1k, as much as cpu: 1"},
		{"", "requests." + cores, "2500", "", ""},
		{"", shared, "4k", "counts nothing, because quotas count this resource as requests." + shared + " only", "write requests." + shared},
		{"", "limits." + cores, "4k", "counts nothing, because quotas count this resource as requests." + cores + " only", "write requests." + cores},
		{"", "requests.cpu", "4", "", ""},
		{"management", "requests.cpu", "4", refused, "write requests." + cores + ": 4k instead of requests.cpu" + elsewhere},
		{"management", "cpu", "500m", refused, "write requests." + cores + ": 500 instead of cpu" + elsewhere},
		{"management", "cpu", "0", refused, "remove cpu" + elsewhere},
		{"management", "limits.cpu", "4", refused, "remove limits.cpu" + elsewhere},
		{"management", "requests.memory", "4", "", ""},
		{"management", "pods", "4", "", ""},
	} {
		got, found := quota.OfQuota(workload.Names{}, c.typ, c.key, resource.MustParse(c.limit))
		if got != (quota.Effect{Text: c.text, Remedy: c.remedy}) || found != (c.text != "") {
			t.Errorf("%s: %s of type %q: %+v, %t; want %q (%s)", c.key, c.limit, c.typ, got, found, c.text, c.remedy)
		}
	}
}
