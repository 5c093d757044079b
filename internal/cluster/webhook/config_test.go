package webhook

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/internal/cluster/evictor"
	"github.com/cpupoold/cpupoold/internal/cluster/hostedpriority"
)

const head = "apiVersion: config.cpupoold.io/v1alpha1\nkind: CPUPoolWebhookConfiguration\n"

func TestParse(t *testing.T) {
	got, err := Parse([]byte(head))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Default(), got); diff != "" {
		t.Errorf("empty file (-defaults +got):\n%s", diff)
	}
	got, err = Parse([]byte(head + `
types: {infra: on, night: off}
sharedCPUs: off
exceptions: {namespaces: [ci], nodeLabels: {karpenter.sh/nodepool: [burst], spot: }}
allowUnaccounted: true
podLevel: container
podLevelOverride: true
drainPeriod: 0s
annotationDomain: example.org
depletion: {eviction: dryRun, after: 0s}
hostedPriority: {enabled: true, sizes: [{name: all, controlPlane: {name: hosted, value: -1}, etcd: {name: hosted-etcd, value: 0}}]}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Types = map[string]admission.Switch{"infra": "on", "night": "off"}
	want.SharedCPUs, want.AllowUnaccounted, want.DrainPeriod, want.AnnotationDomain = "off", true, 0*time.Second, "example.org"
	want.PodLevel, want.PodLevelOverride = admission.PodLevelContainer, true
	want.Depletion = evictor.Config{Eviction: evictor.DryRun, EvictionsPerMinute: 6, MaxNodesPercent: 10}
	want.Exceptions = admission.Exceptions{Namespaces: []string{"ci"}, NodeLabels: map[string][]string{"karpenter.sh/nodepool": {"burst"}, "spot": nil}}
	want.HostedPriority.Enabled = true
	want.HostedPriority.Sizes = []hostedpriority.Size{{Name: "all", ControlPlane: hostedpriority.Class{Name: "hosted", Value: -1}, Etcd: hostedpriority.Class{Name: "hosted-etcd"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("file (-want +got):\n%s", diff)
	}
}

func TestParseRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"empty": {"", []string{`apiVersion: "": write config`, `kind: "": write CPUPool`}},
		"exceptions": {head + "exceptions: {namespaces: [a*], nodeLabels: {a/b/c: [x], pool: [a b]}}\n", []string{
			`exceptions.namespaces: "a*": is no name of a namespace`, `exceptions.nodeLabels: "a/b/c": is no key of a label`, `exceptions.nodeLabels.pool: "a b": is no value of a label`,
		}},
		"unknown key": {head + "sharedCPU: on\n", []string{`line 3: sharedCPU: "on": is not a known key; did you mean sharedCPUs?`}},
		"unknown keys": {head + "PodLevel: pods\nnothing: 1\ndepletion: &d {evictions: dry, after: 2h}\ntolerateDepletion: false\ntoleratDepletion: true\n" +
			"hostedPriority: {sizes: [{Name: a, etc: {nam: x}}, {apiCritcal: {valu: 1}}]}\n<<: [{logformat: xml, <<: {probeAdress: x}}]\n",
			[]string{`line 3: PodLevel: "pods": is not a known key; did you mean podLevel?`, `podLevel: "pods": write pod or container`,
				`line 4: nothing: "1": is not a known key; known here: apiVersion, kind, types, sharedCPUs, `,
				`line 5: depletion.evictions: "dry": is not a known key; did you mean eviction?`, `depletion.eviction: "dry": write off, dryRun or on`, `depletion.after: "2h0m0s"`,
				`line 7: toleratDepletion: "true": is not a known key; did you mean tolerateDepletion?`,
				`line 8: hostedPriority.sizes[0].Name: "a": is not a known key; did you mean name?`, `hostedPriority.sizes[0].etc: "": is not a known key; did you mean etcd?`,
				`hostedPriority.sizes[0].etcd.nam: "x": is not a known key; did you mean name?`, `hostedPriority.sizes[1].apiCritical.valu: "1": is not a known key; did you mean value?`,
				`line 9: logformat: "xml": is not a known key; did you mean logFormat?`, `logFormat: "xml": write text or json`,
				`line 9: probeAdress: "x": is not a known key; did you mean probeAddress?`, `probeAddress: "x": is no address`}},
		"unknown key beside a wrong kind": {head + "podLevl: pod\ndrainPeriod: soon\n",
			[]string{`line 3: podLevl: "pod": is not a known key; did you mean podLevel?`, "does not match the schema: unmarshal errors:\n  line 4: "}},
		"alias of itself": {head + "depletion: &d {<<: *d, After: 1m}\n", []string{`line 3: depletion.After: "1m": is not a known key; did you mean after?`, "contains itself"}},
		"twice":           {head + "sharedCPUs: on\nsharedCPUs: off\n", []string{`already defined`}},
		"two documents":   {head + "---\n" + head, []string{"more than one YAML document"}},
		"no YAML":         {"\t", []string{"does not match the schema"}},
		"all at once": {head + "types: {\"\": on, a_b: on, x: maybe}\nsharedCPUs: yes\nannotationDomain: A\ncertificates: none\nlistenAddress: 9443\ndrainPeriod: 2m\npodLevel: pods\nlogFormat: xml\n" +
			"depletion: {eviction: true, evictionsPerMinute: 0, maxNodesPercent: 101, after: 2h}\n" +
			"hostedPriority: {sizesFrom: nodes, sizes: [{name: a, maxNodes: 1, controlPlane: {name: system-a, value: 3000000000}, etcd: {name: a, value: 3000000000}}]}\n",
			[]string{`types: "": is no name`, `types: "a_b": is no name`, `types.x: "maybe": write on, off or auto`, `sharedCPUs: "yes"`, `annotationDomain: "A"`,
				`certificates: "none"`, `listenAddress: "9443"`, `drainPeriod: "2m0s"`, `podLevel: "pods": write pod or container`,
				`depletion.eviction: "true"`, `depletion.evictionsPerMinute: "0"`, `depletion.maxNodesPercent: "101"`, `depletion.after: "2h0m0s"`, `hostedPriority.sizesFrom: "nodes"`, `hostedPriority.sizes: "a"`, `hostedPriority.sizes[0].controlPlane.name: "system-a"`,
				`hostedPriority.sizes[0].controlPlane.value: "3000000000"`, `hostedPriority.sizes[0].etcd.value: "3000000000": must be more`, `logFormat: "xml"`}},
	} {
		_, err := Parse([]byte(c.text))
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %q, want one with %q", name, err, want)
			}
		}
	}
}
