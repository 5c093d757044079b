package lint_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestKueue checks ClusterQueues and Configurations of Kueue, with the resources of the shared and
// the guaranteed pool on.
func TestKueue(t *testing.T) {
	const (
		head      = "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ClusterQueue\nmetadata: {name: q}\nspec:\n"
		group     = "  resourceGroups:\n  - coveredResources: [%s]\n    flavors: [{name: f, resources: [%s]}]\n"
		config    = "---\napiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nresources:\n"
		admitsNot = ": Kueue admits no pod that the webhook gives this resource"
		cores     = "management.workload.openshift.io/cores"
		shared    = "openshift.io/shared-cpus"
		exclusive = "openshift.io/guaranteed-cpus"
	)
	queue := func(covered, quotas string) string { return head + fmt.Sprintf(group, covered, quotas) }
	cpu := queue("cpu", "{name: cpu, nominalQuota: 4}")
	all := queue("cpu, "+shared+", "+exclusive, "{name: cpu, nominalQuota: 4}, {name: "+shared+", nominalQuota: 4k}, {name: "+exclusive+", nominalQuota: 4k}")
	inConfigMap := func(resources string) string {
		return "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: kueue-manager-config}\ndata:\n  other: x\n  controller_manager_config.yaml: |\n" +
			"    apiVersion: config.kueue.x-k8s.io/v1beta1\n    kind: Configuration\n    resources:\n      " + resources + "\n"
	}
	for name, c := range map[string]struct {
		text string
		want []string // LINE MESSAGE
	}{
		"only cpu":       {cpu, []string{"5 coveredResources has cpu and not " + shared + ", " + exclusive + admitsNot}},
		"older version":  {strings.Replace(cpu, "v1beta2", "v1beta1", 1), []string{"5 coveredResources has cpu and not " + shared + ", " + exclusive + admitsNot}},
		"another group":  {strings.Replace(cpu, "kueue.x-k8s.io", "example.org", 1), nil},
		"without cpu":    {queue("nvidia.com/gpu", "{name: nvidia.com/gpu, nominalQuota: 4}"), nil},
		"all":            {all, nil},
		"all, with type": {namespace + all, []string{"10 coveredResources has cpu and not " + cores + admitsNot}},
		"amounts": {
			queue("cpu, "+shared+", "+exclusive, "{name: "+shared+", nominalQuota: 8}, {name: "+exclusive+", nominalQuota: \"2500\"}"),
			[]string{
				"7 nominalQuota 2500 of " + exclusive + " in flavor \"f\" admits exclusive CPUs up to 2k, because each counts 1k",
				"7 nominalQuota 8 of " + shared + " in flavor \"f\" admits less than a tenth of a CPU, because the unit is a thousandth of a CPU",
			},
		},
		"cohort": {
			strings.Replace(queue("cpu, "+shared, "{name: "+shared+", nominalQuota: 8}"), "ClusterQueue", "Cohort", 1),
			[]string{"7 nominalQuota 8 of " + shared + " in flavor \"f\" admits less than a tenth of a CPU, because the unit is a thousandth of a CPU"},
		},
		"excluded by the queue":    {cpu + "  excludeResourcePrefixes: [openshift.io/]\n", nil},
		"excluded and with quota":  {all + "  excludeResourcePrefixes: [" + shared + "]\n", []string{"7 nominalQuota 4k of " + shared + " in flavor \"f\" has no effect, because of excludeResourcePrefixes \"" + shared + "\""}},
		"excluded by Kueue":        {cpu + config + "  excludeResourcePrefixes: [" + shared + ", " + exclusive + "]\n", nil},
		"excluded by a ConfigMap":  {cpu + inConfigMap("excludeResourcePrefixes: ["+shared+", "+exclusive+"]"), nil},
		"replaced":                 {cpu + config + "  excludeResourcePrefixes: [" + shared + "]\n  transformations: [{input: " + exclusive + ", strategy: Replace}]\n", nil},
		"retained":                 {cpu + config + "  transformations: [{input: " + exclusive + ", strategy: Retain}, {input: " + shared + ", strategy: Replace}]\n", []string{"5 coveredResources has cpu and not " + exclusive + admitsNot}},
		"undeclared are ignored":   {cpu + config + "  quotaCheckStrategy: IgnoreUndeclared\n", nil},
		"undeclared are blocked":   {cpu + config + "  quotaCheckStrategy: BlockUndeclared\n", []string{"5 coveredResources has cpu and not " + shared + ", " + exclusive + admitsNot}},
		"name of a quota":          {all + config + "  excludeResourcePrefixes:\n  - requests." + shared + "\n", []string{"13 excludeResourcePrefixes \"requests." + shared + "\" excludes no resource"}},
		"one of two":               {strings.TrimPrefix(config, "---\n") + "  excludeResourcePrefixes: [" + shared + "]\n", []string{"4 excludeResourcePrefixes has resources of pools and not " + exclusive + admitsNot}},
		"one of two, in ConfigMap": {strings.TrimPrefix(inConfigMap("excludeResourcePrefixes: ["+shared+"]"), "---\n"), []string{"6 excludeResourcePrefixes has resources of pools and not " + exclusive + admitsNot}},
		"other ConfigMap":          {"apiVersion: v1\nkind: ConfigMap\ndata: {a: 'config.kueue.x-k8s.io/', b: 'kind: {'}\n", nil},
		"not readable":             {head + "  resourceGroups: 3\n", []string{"4 it cannot be read: cannot unmarshal number into Go struct field .spec.resourceGroups"}},
	} {
		s := settings()
		s.Admission.SharedCPUs, s.Admission.GuaranteedCPUs = true, true
		var got []string
		for _, f := range check(t, s, c.text) {
			got = append(got, fmt.Sprintf("%d %s", f.Line, f.Message))
			if f.Remedy == "" || f.Name == "" && f.Kind != "Configuration" {
				t.Errorf("%s: finding %+v; want a name and a remedy", name, f)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: findings (-want +got):\n%s", name, diff)
		}
	}
	if findings := check(t, settings(), cpu); len(findings) > 0 {
		t.Errorf("findings without the resources of pools = %v; want none", findings)
	}
}
