package nodekind_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/cpupoold/cpupoold/internal/nodekind"
)

// TestCanRun checks nodes as their kubelets register them.
func TestCanRun(t *testing.T) {
	for text, want := range map[string]bool{
		"{}": true,
		"{status: {nodeInfo: {operatingSystem: linux}}}":                                                       true,
		"{metadata: {labels: {kubernetes.io/os: linux, type: worker}}}":                                        true,
		"{status: {nodeInfo: {operatingSystem: windows}}}":                                                     false,
		"{metadata: {labels: {kubernetes.io/os: windows}}}":                                                    false,
		"{metadata: {labels: {type: virtual-kubelet}}, status: {nodeInfo: {operatingSystem: Linux}}}":          false,
		"{spec: {taints: [{key: virtual-kubelet.io/provider, value: azure, effect: NoSchedule}]}}":             false,
		"{metadata: {labels: {eks.amazonaws.com/compute-type: fargate}}}":                                      false,
		"{spec: {taints: [{key: eks.amazonaws.com/compute-type, value: fargate, effect: NoSchedule}]}}":        false,
		"{metadata: {labels: {eks.amazonaws.com/compute-type: ec2}}}":                                          true,
		"{metadata: {labels: {liqo.io/type: virtual-node}}}":                                                   false,
		"{spec: {taints: [{key: virtual-node.liqo.io/not-allowed, effect: NoExecute}]}}":                       false,
		"{metadata: {labels: {type: kwok}}}":                                                                   false,
		"{spec: {taints: [{key: node-role.kubernetes.io/control-plane}]}}":                                     true,
		"{status: {nodeInfo: {operatingSystem: Linux}}, metadata: {labels: {beta.kubernetes.io/os: windows}}}": true,
	} {
		var n corev1.Node
		if err := yaml.Unmarshal([]byte(text), &n); err != nil {
			t.Fatal(err)
		}
		if got := nodekind.CanRun(&n); got != want {
			t.Errorf("%s: CanRun is %t, want %t", text, got, want)
		}
	}
}

// TestExcludes checks pods that only nodes without a daemon can run.
func TestExcludes(t *testing.T) {
	const affinity = "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "
	for spec, want := range map[string]bool{
		"{}":                                 false,
		"{os: {name: windows}}":              true,
		"{os: {name: linux}}":                false,
		"{schedulerName: fargate-scheduler}": true,
		"{nodeName: virtual-1}":              true,
		"{nodeName: a}":                      false,
		"{nodeSelector: {kubernetes.io/os: windows}}":                                                                                                            true,
		"{nodeSelector: {kubernetes.io/os: linux, disk: ssd}}":                                                                                                   false,
		"{nodeSelector: {type: virtual-kubelet}}":                                                                                                                true,
		"{nodeSelector: {type: worker}}":                                                                                                                         false,
		"{tolerations: [{key: virtual-kubelet.io/provider, operator: Exists}]}":                                                                                  false,
		"{" + affinity + "[{matchExpressions: [{key: type, operator: In, values: [virtual-kubelet]}]}]}}}}":                                                      true,
		"{" + affinity + "[{matchExpressions: [{key: type, operator: In, values: [virtual-kubelet, worker]}]}]}}}}":                                              false,
		"{" + affinity + "[{matchExpressions: [{key: type, operator: NotIn, values: [virtual-kubelet]}]}]}}}}":                                                   false,
		"{" + affinity + "[{matchFields: [{key: metadata.name, operator: In, values: [virtual-1]}]}]}}}}":                                                        true,
		"{" + affinity + "[{matchFields: [{key: metadata.name, operator: In, values: [a]}]}]}}}}":                                                                false,
		"{" + affinity + "[{matchExpressions: [{key: type, operator: In, values: [virtual-kubelet]}]}, {matchExpressions: [{key: disk, operator: Exists}]}]}}}}": false,
	} {
		var pod corev1.Pod
		if err := yaml.Unmarshal([]byte("spec: "+spec), &pod); err != nil {
			t.Fatal(err)
		}
		if got := nodekind.Excludes(&pod, map[string]bool{"virtual-1": true}); got != want {
			t.Errorf("%s: Excludes is %t, want %t", spec, got, want)
		}
	}
}
