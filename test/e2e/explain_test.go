//go:build e2e

package e2e_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/plugin/clustercheck"
)

// limitless creates a pod with a whole CPU in one container and without a memory limit in the other one, and waits until it runs.
func limitless(t *testing.T, c *cluster) {
	t.Helper()
	s := spec("1|1")
	proxy := *s.Containers[0].DeepCopy()
	proxy.Name = "proxy"
	proxy.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("16Mi")}
	proxy.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
	s.Containers = append(s.Containers, proxy)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "limitless"}, Spec: s}
	if _, err := c.CoreV1().Pods("apps").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.running(t, "apps", "limitless")
}

// explain checks the sentences about pods with an answer of their daemon: a pod with exclusive CPUs, two pods in the shared pool because of
// mistakes, and a management pod.
func explain(t *testing.T, c *cluster) {
	limitless(t, c)
	monitors, err := c.CoreV1().Pods("ops").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(monitors.Items) == 0 {
		t.Fatalf("pods of namespace ops: %d, %v", len(monitors.Items), err)
	}
	monitor := monitors.Items[0].Name
	whole := c.cpus(t, c.running(t, "apps", "whole-2")).String()
	for _, of := range []struct{ pod, namespace, sentence, fix, cpus string }{
		{"whole-2", "apps", "container app of whole-2 has exclusive CPUs of the guaranteed pool, because it requests 2 whole CPUs in a Guaranteed pod.", "", whole},
		{
			"limitless", "apps", "limitless runs in the shared pool, because its container proxy has no memory limit, so the pod is Burstable.",
			"for exclusive CPUs set resources.limits.memory of container proxy, with requests equal to limits in all containers", "2-3",
		},
		{
			"outsider", "apps", "outsider runs in the shared pool, because namespace apps does not allow workload type management.",
			"annotate namespace apps with workload.openshift.io/allowed: management (the webhook requires it), and add it to partitions[].namespaces in the configuration of the node (not necessary with namespacePermission: annotation)", "2-3",
		},
		{monitor, "ops", monitor + " runs in the management pool, because it requests workload type management.", "", "0-1"},
	} {
		t.Run(of.pod, func(t *testing.T) {
			want := of.sentence
			if of.fix != "" {
				want += "\nfix: " + of.fix
			}
			want += "\nCPUs: " + of.cpus
			if diff := cmp.Diff(want, c.plugin(t, "explain "+of.pod+" -n "+of.namespace+" 2>&1")); diff != "" {
				t.Errorf("explain %s (-want +got):\n%s", of.pod, diff)
			}
			e := c.explanation(t, "explain "+of.pod+" -n "+of.namespace+" -o json")
			if len(e.Notes) > 0 {
				t.Errorf("notes of the answer = %q; want none", e.Notes)
			}
			for _, s := range e.Subjects {
				// Only the daemon has the files of the cgroup.
				if s.Sentence != of.sentence || s.Fix != of.fix || s.Container.CPUs.String() != of.cpus || s.Kernel == nil || s.Kernel.Effective != of.cpus {
					t.Errorf("container %s is explained with %+v", s.Container.Name, s)
				}
			}
		})
	}
	t.Run("viewer", func(t *testing.T) { explainToViewer(t, c) })
}

// explainPending checks the sentence about a pod that waits for a resource.
func explainPending(t *testing.T, c *cluster, pod, sentence, resource string) {
	e := c.explanation(t, "explain "+pod+" -n apps -o json")
	if len(e.Notes) != 1 || !strings.Contains(e.Notes[0], "Insufficient "+resource) || e.Subjects[0].Sentence != sentence {
		t.Errorf("pod %s is explained with %+v", pod, e)
	}
}

// explainToViewer checks the answer for a user with the role view in one namespace. This role has no access to the daemon.
func explainToViewer(t *testing.T, c *cluster) {
	c.kubectl(t, "kubectl -n apps create serviceaccount viewer")
	c.kubectl(t, "kubectl -n apps create rolebinding viewer --clusterrole=view --serviceaccount=apps:viewer")
	config := c.kubectl(t, "cp super-admin.conf viewer.conf && unset KUBECONFIG; export KUBECONFIG=viewer.conf\n"+
		"token=$(KUBECONFIG=super-admin.conf kubectl -n apps create token viewer)\n"+
		"kubectl config set-credentials viewer --token=$token && kubectl config set-context --current --user=viewer --namespace=apps\n"+
		"kubectl auth whoami -o 'jsonpath={.status.userInfo.username}'")
	if !strings.HasSuffix(config, "system:serviceaccount:apps:viewer") {
		t.Fatalf("user of the kubeconfig = %s; want apps:viewer", config)
	}
	e := c.explanation(t, "explain limitless --kubeconfig viewer.conf -o json")
	const sentence = "limitless runs in the shared pool, because its container proxy has no memory limit, so the pod is Burstable."
	if len(e.Notes) != 1 || !strings.Contains(e.Notes[0], "forbidden") || len(e.Subjects) != 2 || e.Subjects[0].Sentence != sentence {
		t.Errorf("answer to a viewer = %+v; want one note with forbidden, and 2 subjects", e)
	}
}

// explanation runs a command of the plugin that prints an explanation as JSON.
func (c *cluster) explanation(t *testing.T, command string) *inspect.Explanation {
	t.Helper()
	var e inspect.Explanation
	if err := json.Unmarshal([]byte(c.plugin(t, command)), &e); err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	if e.Version != inspect.Version || len(e.Subjects) == 0 {
		t.Fatalf("%s: %+v", command, e)
	}
	return &e
}

// checkCluster checks that the plugin finds no problem in this cluster, and reads all facts.
func checkCluster(t *testing.T, c *cluster) {
	var d clustercheck.Document
	if err := json.Unmarshal([]byte(c.plugin(t, "check -o json")), &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Findings) > 0 || len(d.Unread) > 0 {
		t.Errorf("findings = %+v; not read = %+v; want none", d.Findings, d.Unread)
	}
	if len(d.Nodes) != 1 {
		t.Fatalf("nodes = %+v; want 1", d.Nodes)
	}
	n := d.Nodes[0]
	got := []string{n.Name, n.NRI, n.Cgroup, n.Kernel, n.Kubelet.CPUManagerPolicy, n.Kubelet.CgroupDriver}
	if diff := cmp.Diff([]string{nodeName, "on", "v2", c.run(t, "uname", "-r"), "none", "systemd"}, got); diff != "" {
		t.Errorf("the node (-want +got):\n%s", diff)
	}
}
