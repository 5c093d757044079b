package deploy

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/config"
)

func TestChartRefuses(t *testing.T) {
	const one = "profiles: [{name: a, nodeSelector: {kind: a}, config: {logLevel: info}}"
	for _, c := range []struct{ values, want string }{
		{"replicas: 2", "replicas"},
		{"image: {repository: Registry/x, tag: a}", "/image/repository"},
		{"image: {tag: 1}", "/image/tag"},
		{"image: {pullPolicy: Sometimes}", "/image/pullPolicy"},
		{"restore: yes please", "/restore"},
		{"config: {partition: []}", "partition"},
		{"config: {kind: Pod}", "/config/kind"},
		{"profiles: {a: 1}", "/profiles"},
		{"profiles: [{name: a, config: {logLevel: info}}]", "nodeSelector"},
		{"profiles: [{name: a, nodeSelector: {}, config: {logLevel: info}}]", "/profiles/0/nodeSelector"},
		{"profiles: [{name: a, nodeSelector: {kind: a}, config: {}}]", "/profiles/0/config"},
		{"profiles: [{name: A_b, nodeSelector: {kind: a}, config: {logLevel: info}}]", "/profiles/0/name"},
		{"profiles: [{name: a, nodeSelector: {cpus: 4}, config: {logLevel: info}}]", "/profiles/0/nodeSelector/cpus"},
		{"webhook: {replicas: 0}", "/webhook/replicas"},
		{"monitoring: {podMonitor: true}", "/monitoring/podMonitor"},
		{"monitoring: {prometheusRule: {enabled: true, label: {a: b}}}", "label"},
		{"monitoring: {prometheusRule: {labels: {a: 1}}}", "/monitoring/prometheusRule/labels/a"},
		{"monitoring: {serviceMonitor: {namespace: a.b}}", "/monitoring/serviceMonitor/namespace"},
		{"monitoring: {podMonitor: {enabled: true}, serviceMonitor: {enabled: true}}", "enable one of them"},
		{"webhook: {config: {sharedCPUs: off}}", "/webhook/config/sharedCPUs"}, // false, to helm
		{"webhook: {config: {types: {management: on}}}", "/webhook/config/types/management"},
		{"webhook: {config: {listenAddress: ':443'}}", "/webhook/config/listenAddress"},
		{"webhook: {config: {sharedCPU: auto}}", "sharedCPU"},
		{"webhook: {config: {depletion: {eviction: on}}}", "/webhook/config/depletion/eviction"},
		{"webhook: {config: {hostedPriority: {enabled: 'true'}}}", "/webhook/config/hostedPriority/enabled"},
		{"webhook: {config: {hostedPriority: {sizes: []}}}", "/webhook/config/hostedPriority/sizes"},
		{"webhook: {config: {hostedPriority: {sizes: [{name: a, maxnodes: 1}]}}}", "maxnodes"},
		{"webhook: {config: {depletion: {evictionsPerMinute: 100}}}", "/webhook/config/depletion/evictionsPerMinute"},
		{"webhook: {networkPolicy: {apiServerPorts: [0]}}", "/webhook/networkPolicy/apiServerPorts/0"},
		{"webhook: {enabled: true, injectCAFrom: cert-manager}", "/webhook/injectCAFrom"},
		{"webhook: {enabled: true, config: {certificates: files}}", "set webhook.injectCAFrom"},
		{"webhook: {enabled: true, injectCAFrom: a/b}", "set webhook.config.certificates to files"},
		{one + "]\nconfig: {logLevel: info}", "move it into the profiles"},
		{one + ", {name: a, nodeSelector: {kind: b}, config: {logLevel: info}}]", "a occurs twice"},
		{one + ", {name: b, nodeSelector: {kind: a, size: b}, config: {logLevel: info}}]", "a node can be of both a and b"},
		{one + ", {name: b, nodeSelector: {size: b}, config: {logLevel: info}}]", "a node can be of both a and b"},
		{one + ", {name: b, nodeSelector: {kind: b}, config: {node: {startupTaint: a.b/c}}}]", "several startup taints, cpupoold.io/starting, a.b/c"},
		{"config: {annotationDomain: a.b}\nwebhook: {enabled: true}", "annotationDomain is a.b and workload.openshift.io"},
		{"config: {poolDomain: a.b}\nwebhook: {enabled: true}", "poolDomain is a.b and openshift.io"},
		{"image: {digest: 'sha256:1'}", "/image/digest"},
		{"imagePullSecrets: [registry]", "/imagePullSecrets/0"},
		{"tolerations: [{keys: a}]", "keys"},
		{"affinity: {node: {}}", "node"},
		{"extraEnv: [{value: a}]", "name"},
		{"extraArgs: verbose", "/extraArgs"},
		{"podLabels: {a: 1}", "/podLabels/a"},
		{"podLabels: {app.kubernetes.io/name: a}", "podLabels: the chart itself sets app.kubernetes.io/name"},
		{"podAnnotations: {nri.cpupoold.io/tolerate-missing: 'false'}", "podAnnotations: the chart itself sets nri.cpupoold.io/tolerate-missing"},
		{"updateStrategy: {rollingUpdate: {maxSurge: 1}}", "/updateStrategy/rollingUpdate/maxSurge"},
		{"webhook: {updateStrategy: {type: OnDelete}}", "/webhook/updateStrategy/type"},
		{"test: {timeout: soon}", "/test/timeout"},
		{"dra: {accounting: mirrored}", "/dra/accounting"},
		{"dra: {numaAttributes: [numaNode]}", "/dra/numaAttributes/0"},
		{"dra: {networkPolicy: {apiServerPorts: []}}", "/dra/networkPolicy/apiServerPorts"},
		{"dra: {enabled: true}", "no configuration has guaranteed.claims"},
		{withClaims + "restore: true", "set dra.enabled to false"},
		{withClaims + "kubeVersion: v1.35.4", "dra.enabled needs Kubernetes 1.36, and this is v1.35.4"},
		{strings.Replace(withClaims, "enabled: true", "enabled: true, podLabels: {app.kubernetes.io/name: a}", 1), "podLabels: the chart itself sets app.kubernetes.io/name"},
		{strings.Replace(one, "config:", "replicas: 1, config:", 1) + "]", "replicas"},
	} {
		if _, err := try(t, loadChart(t), c.values); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("values %q: %v; want an error with %q", c.values, err, c.want)
		}
	}
}

// TestSchemaKnowsConfiguration checks that helm refuses the keys that the daemon
// refuses.
func TestSchemaKnowsConfiguration(t *testing.T) {
	data, err := os.ReadFile(chartDir + "/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Definitions struct {
			Config struct{ Properties map[string]any }
		}
	}
	if err := json.Unmarshal(data, &schema); err != nil {
		t.Fatal(err)
	}
	_, err = config.Parse([]byte("nonsense: 1"), "values", config.Overrides{}, nil)
	if err == nil {
		t.Fatal("the daemon accepts an unknown key; want an error")
	}
	_, known, _ := strings.Cut(err.Error(), "known here: ")
	known, _, _ = strings.Cut(known, "\n")
	want := strings.Split(known, ", ")
	slices.Sort(want)
	if d := cmp.Diff(want, slices.Sorted(maps.Keys(schema.Definitions.Config.Properties))); d != "" {
		t.Errorf("keys of a configuration (-daemon +schema):\n%s", d)
	}
}

// TestSchemaKnowsWebhook checks that helm refuses the keys that the webhook refuses. A
// webhook that does not start blocks all pods, so helm must check before.
func TestSchemaKnowsWebhook(t *testing.T) {
	data, err := os.ReadFile(chartDir + "/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	type object struct{ Properties map[string]json.RawMessage }
	var schema struct {
		Properties struct {
			Webhook struct {
				Properties struct{ Config object }
			}
		}
	}
	if err := json.Unmarshal(data, &schema); err != nil {
		t.Fatal(err)
	}
	// The test reads the source, because the package links the server code of a cluster.
	source, err := os.ReadFile("../../internal/cluster/webhook/config.go")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, tag := range regexp.MustCompile("`yaml:\"([A-Za-z]+)\"`").FindAllStringSubmatch(string(source), -1) {
		want = append(want, tag[1])
	}
	slices.Sort(want)
	if d := cmp.Diff(want, slices.Sorted(maps.Keys(schema.Properties.Webhook.Properties.Config.Properties))); d != "" {
		t.Errorf("keys of a webhook's configuration (-webhook +schema):\n%s", d)
	}
}
