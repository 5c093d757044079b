//go:build e2e

package e2e_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/plugin/size"
)

// predict packs the pods of the cluster onto nodes like its node. The scheduler has put all pods but late
// onto the node, so the prediction has one full node, and a second one for late. Each pod has the CPUs that
// the daemon reports.
func predict(t *testing.T, c *cluster) {
	manual := read(t, "docs/how-to/size-a-fleet.md")
	manual.follow(t, c,
		"kubectl get pods,namespaces,limitranges -A -o json > pods.json",
		`kubectl -n cpupoold get configmap cpupoold -o 'jsonpath={.data.config\.yaml}' > installed.yaml`,
		"kubectl -n cpupoold exec daemonset/cpupoold -- cpupoold topology -o json > machine.json")
	c.kubectl(t, "kubectl get node "+nodeName+" -o json > node.json")
	c.kubectl(t, manual.command(t, "kubectl cpupool size -f pods.json --machine worker=machine.json --config installed.yaml --node node.json", c.pluginPath(t)))
	var predicted size.Document
	text := c.kubectl(t, c.pluginPath(t)+"kubectl cpupool size -f pods.json --machine worker=machine.json --config installed.yaml --node node.json -o json")
	if err := json.Unmarshal([]byte(text), &predicted); err != nil {
		t.Fatal(err)
	}

	pods, err := c.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	owned := make(map[string]string) // the exclusive CPUs of each pod on the node
	var pending []string
	for i := range pods.Items {
		switch p := &pods.Items[i]; {
		case p.Spec.NodeName == "":
			pending = append(pending, p.Namespace+"/"+p.Name)
		case p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed:
			owned[p.Namespace+"/"+p.Name] = ""
		}
	}
	for _, own := range c.document(t, "kubectl -n cpupoold exec daemonset/cpupoold -- cpupoold status -o json").Containers {
		if own.Pool == inspect.Guaranteed {
			owned[own.Namespace+"/"+own.Pod] = own.CPUs.String()
		}
	}
	if !slices.Equal(pending, []string{"apps/late"}) {
		t.Fatalf("pods without a node = %v; want apps/late", pending)
	}
	// A pod of the DaemonSet has the name of the DaemonSet's first pod on each node.
	if len(predicted.Nodes) != 2 || predicted.Bound.Nodes != 2 || len(predicted.Unplaced) > 0 {
		t.Fatalf("size predicts %d nodes, at least %d, without a node %+v; want 2 nodes:\n%s", len(predicted.Nodes), predicted.Bound.Nodes, predicted.Unplaced, text)
	}
	if diff := cmp.Diff(owned, cpusOf(&predicted.Nodes[0])); diff != "" {
		t.Errorf("pods and their CPUs: the scheduler and the daemon (-), size (+):\n%s", diff)
	}
	second := &predicted.Nodes[1]
	if second.Opened.Pod != "apps/late" || second.Opened.Resource != guaranteed || slices.IndexFunc(second.Pods, func(p size.Pod) bool { return p.Name == "apps/late" }) < 0 {
		t.Errorf("the second node is %+v; want it for apps/late and %s", second, guaranteed)
	}
	if others := slices.DeleteFunc(slices.Clone(second.Pods), func(p size.Pod) bool { return p.Daemon || p.Name == "apps/late" }); len(others) > 0 {
		t.Errorf("the second node has %+v, too", others)
	}
}

// cpusOf returns the exclusive CPUs of the pods of a node.
func cpusOf(n *size.Node) map[string]string {
	of := make(map[string]string)
	for _, p := range n.Pods {
		of[p.Name] = p.CPUs.String()
	}
	return of
}
