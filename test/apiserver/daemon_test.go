//go:build apiserver

package apiserver_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

// daemonOn are the Nodes as the daemon's account sees them, with a token that is bound
// to a node, or to none.
func daemonOn(t *testing.T, s *apiServer, node string) typedv1.NodeInterface {
	t.Helper()
	config := s.config(admin)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:cpupoold:cpupoold"}
	if node != "" {
		config.Impersonate.Extra = map[string][]string{"authentication.kubernetes.io/node-name": {node}}
	}
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c.CoreV1().Nodes()
}

// TestDaemon checks that deploy/rbac.yaml gives a daemon the rights to its own Node
// that it needs, and no others.
func TestDaemon(t *testing.T) {
	s := startAPIServer(t)
	install(t, s, "../rbac.yaml")
	all := s.client(t, admin).CoreV1().Nodes()
	for _, name := range []string{"n1", "n2"} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"l": "1"}}}
		n, err := all.Create(t.Context(), n, metav1.CreateOptions{})
		if err == nil {
			// Without the one that the API server gives to new Nodes.
			n.Spec.Taints = []corev1.Taint{{Key: "other", Effect: "NoSchedule"}, {Key: "cpupoold.io/starting", Effect: "NoSchedule"}}
			_, err = all.Update(t.Context(), n, metav1.UpdateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
		status := `{"status":{"capacity":{"cpu":"8","example.com/gpu":"2"},"allocatable":{"cpu":"8","example.com/gpu":"2"},` +
			`"addresses":[{"type":"InternalIP","address":"192.0.2.1"}],"conditions":[{"type":"Ready","status":"True"}]}}`
		if _, err := all.Patch(t.Context(), name, types.StrategicMergePatchType, []byte(status), metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
	}
	const (
		shows = `{"status":{"capacity":{"openshift.io/shared-cpus":"4000"},"allocatable":{"openshift.io/shared-cpus":"4000"},` +
			`"conditions":[{"type":"CPUPoolsReady","status":"True","reason":"AsPlanned","message":"m"}]}}`
		withdraws = `{"status":{"capacity":{"openshift.io/shared-cpus":null},"allocatable":{"openshift.io/shared-cpus":null},` +
			`"conditions":[{"$patch":"delete","type":"CPUPoolsReady"}]}}`
		pressed         = `{"status":{"conditions":[{"type":"NodeCPUPressure","status":"True","reason":"SharedPoolDepleted","message":"m"}]}}`
		depleted        = `{"key":"node.cpupoold.io/shared-cpus-depleted","value":"","effect":"NoSchedule"}`
		starting, other = `{"key":"cpupoold.io/starting","effect":"NoSchedule"}`, `{"key":"other","effect":"NoSchedule"}`
	)
	eventually(t, "the policy is in force", func(ctx context.Context) error {
		_, err := daemonOn(t, s, "n1").Patch(ctx, "n2", types.StrategicMergePatchType, []byte(shows), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, "status")
		if err == nil || !strings.Contains(err.Error(), "cpupoold-own-node") {
			return errorf("answer %w", err)
		}
		return nil
	})
	for _, c := range []struct {
		name, on, node, patch string
		want                  string // part of the refusal; empty: done
	}{
		{"shows", "n1", "n1", shows, ""},
		{"shows again", "n1", "n1", strings.ReplaceAll(shows, "True", "False"), ""},
		{"another node", "n1", "n2", shows, "may change that Node only, not n2"},
		{"a token of no node", "", "n1", shows, "may change that Node only, not n1"},
		{"the Node's CPUs", "n1", "n1", `{"status":{"allocatable":{"cpu":"16"}}}`, "only resources of pools"},
		{"huge pages that are not there", "n1", "n1", `{"status":{"capacity":{"hugepages-2Mi":"1Gi"}}}`, "only resources of pools"},
		{"another's devices", "n1", "n1", `{"status":{"capacity":{"example.com/gpu":"16"}}}`, "only resources of pools"},
		{"another's devices, away", "n1", "n1", `{"status":{"allocatable":{"example.com/gpu":null}}}`, "only resources of pools"},
		{"pools of another domain", "n1", "n1", `{"status":{"capacity":{"infra.example.com/cores":"1"},"allocatable":{"infra.example.com/cores":"1"}}}`, ""},
		{"the same, away", "n1", "n1", `{"status":{"capacity":{"infra.example.com/cores":null},"allocatable":{"infra.example.com/cores":null}}}`, ""},
		{"address", "n1", "n1", `{"status":{"addresses":[{"type":"ExternalIP","address":"192.0.2.2"}]}}`, "resources and two conditions only"},
		{"the kubelet's port", "n1", "n1", `{"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":1}}}}`, "resources and two conditions only"},
		{"volumes", "n1", "n1", `{"status":{"volumesInUse":["v"]}}`, "resources and two conditions only"},
		{"images", "n1", "n1", `{"status":{"images":[{"names":["i"]}]}}`, "resources and two conditions only"},
		{"phase", "n1", "n1", `{"status":{"phase":"Terminated"}}`, "resources and two conditions only"},
		{"the runtime's handlers", "n1", "n1", `{"status":{"runtimeHandlers":[{"name":"h"}]}}`, "resources and two conditions only"},
		{"the runtime's features", "n1", "n1", `{"status":{"features":{"supplementalGroupsPolicy":true}}}`, "resources and two conditions only"},
		{"the kubelet's features", "n1", "n1", `{"status":{"declaredFeatures":["F"]}}`, "resources and two conditions only"},
		{"another condition", "n1", "n1", `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`, "CPUPoolsReady and NodeCPUPressure only"},
		{"withdraws", "n1", "n1", withdraws, ""},
		{"label", "n1", "n1", `{"metadata":{"labels":{"l":"2"}}}`, "does not change labels"},
		{"annotation", "n1", "n1", `{"metadata":{"annotations":{"a":"1"}}}`, "does not change labels"},
		{"owner", "n1", "n1", `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"gone","uid":"1"}]}}`, "owners and finalizers"},
		{"finalizer", "n1", "n1", `{"metadata":{"finalizers":["example.com/x"]}}`, "owners and finalizers"},
		{"provider", "n1", "n1", `{"spec":{"providerID":"x"}}`, "cpupoold changes taints only"},
		{"addresses of pods", "n1", "n1", `{"spec":{"podCIDR":"192.0.2.0/24","podCIDRs":["192.0.2.0/24"]}}`, "cpupoold changes taints only"},
		{"cordon", "n1", "n1", `{"spec":{"unschedulable":true}}`, "cpupoold changes taints only"},
		{"another taint", "n1", "n1", `{"spec":{"taints":[` + starting + `]}}`, "cpupoold changes taints only"},
		{"a new taint", "n1", "n1", `{"spec":{"taints":[` + other + `,` + starting + `,{"key":"new","effect":"NoSchedule"}]}}`, "cpupoold changes taints only"},
		{"another node's taint", "n1", "n2", `{"spec":{"taints":[` + other + `]}}`, "may change that Node only, not n2"},
		{"depleted", "n1", "n1", pressed, ""},
		{"another node is depleted", "n1", "n2", pressed, "may change that Node only, not n2"},
		{"the taint of depletion", "n1", "n1", `{"spec":{"taints":[` + other + `,` + starting + `,` + depleted + `]}}`, ""},
		{"with leave to evict", "n1", "n1", `{"spec":{"taints":[` + other + `,` + starting + `,` + strings.Replace(depleted, `""`, `"evict"`, 1) + `]}}`, ""},
		{"one that ends pods", "n1", "n1", `{"spec":{"taints":[` + other + `,` + starting + `,` + strings.Replace(depleted, "NoSchedule", "NoExecute", 1) + `]}}`, "cpupoold changes taints only"},
		{"another node's", "n1", "n2", `{"spec":{"taints":[` + other + `,` + starting + `,` + depleted + `]}}`, "may change that Node only, not n2"},
		{"depleted no more", "n1", "n1", `{"status":{"conditions":[{"$patch":"delete","type":"NodeCPUPressure"}]}}`, ""},
		{"the startup taint", "n1", "n1", `{"spec":{"taints":[` + other + `]}}`, ""},
	} {
		kind, sub := types.MergePatchType, []string{}
		if strings.Contains(c.patch, "status") {
			kind, sub = types.StrategicMergePatchType, []string{"status"}
		}
		_, err := daemonOn(t, s, c.on).Patch(t.Context(), c.node, kind, []byte(c.patch), metav1.PatchOptions{}, sub...)
		if c.want != "" {
			refusedWith(t, c.name, err, c.want)
		} else if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if err := daemonOn(t, s, "n1").Delete(t.Context(), "n1", metav1.DeleteOptions{}); err == nil {
		t.Error("a daemon deleted its Node; want a refusal")
	}
	n1, err := all.Get(t.Context(), "n1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if n1.Labels["l"] != "1" || len(n1.Spec.Taints) != 1 || n1.Spec.Taints[0].Key != "other" || len(n1.Status.Capacity) != 2 || len(n1.Status.Conditions) != 1 {
		t.Errorf("Node = %+v; want no change by a daemon", n1)
	}
}
