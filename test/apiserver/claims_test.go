//go:build apiserver

package apiserver_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cpupoold/cpupoold/test/processes"
)

// claimObjects are a class of the driver, a class of another driver, and templates and a claim in namespace apps.
const claimObjects = `
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: mine.example.com}
spec: {extendedResourceName: example.com/cpus, selectors: [{cel: {expression: 'device.driver == "cpu.cpupoold.io"'}}]}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: nic.example.com}
spec: {selectors: [{cel: {expression: 'device.driver == "nic.example.com"'}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: du, namespace: apps}
spec:
  spec:
    devices:
      requests:
      - {name: cpus, exactly: {deviceClassName: exclusive-cpus.cpupoold.io, capacity: {requests: {cpu.cpupoold.io/cpus: "4"}}}}
      - {name: nic, exactly: {deviceClassName: nic.example.com}}
      constraints: [{requests: [cpus, nic], matchAttribute: resource.kubernetes.io/numaNode}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: either, namespace: apps}
spec:
  spec:
    devices:
      requests:
      - {name: cpus, firstAvailable: [{name: mine, deviceClassName: mine.example.com}, {name: nic, deviceClassName: nic.example.com}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: one, namespace: apps}
spec: {devices: {requests: [{name: cpus, exactly: {deviceClassName: mine.example.com}}]}}
`

// claiming returns a pod with one claim, from a template or by name. The containers a, b and so on use the claim,
// or the request behind a slash. Their resources have the format of newPod.
func claiming(name string, entry corev1.PodResourceClaim, containers ...[2]string) *corev1.Pod {
	pod := newPod(name, nil, "")
	entry.Name = "e"
	pod.Spec.ResourceClaims, pod.Spec.Containers = []corev1.PodResourceClaim{entry}, nil
	for i, of := range containers {
		c := newPod(name, nil, of[1]).Spec.Containers[0]
		c.Name = string(rune('a' + i))
		if uses, request, _ := strings.Cut(of[0], "/"); uses == "e" {
			c.Resources.Claims = []corev1.ResourceClaim{{Name: uses, Request: request}}
		}
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	}
	return pod
}

func fromTemplate(name string) corev1.PodResourceClaim {
	return corev1.PodResourceClaim{ResourceClaimTemplateName: &name}
}

// countsAs creates a pod, and checks the requests of its containers without memory, and a part of its warnings.
func countsAs(t *testing.T, s *apiServer, pod *corev1.Pod, warns string, want ...string) {
	t.Helper()
	got, err := create(t, s, "apps", pod)
	if err != nil {
		t.Fatalf("%s: %v", pod.Name, err)
	}
	for i := range want {
		if r := requestsOf(&got.Spec.Containers[i]); r != want[i] {
			t.Errorf("%s: container %s requests %s; want %s", pod.Name, got.Spec.Containers[i].Name, r, want[i])
		}
	}
	if text := got.Annotations[warning]; !strings.Contains(text, warns) || warns == "" && text != "" {
		t.Errorf("%s: warnings %q; want %q", pod.Name, text, warns)
	}
}

// claimsKnown waits until the metric of the webhook has a value.
func (r *replica) claimsKnown(t *testing.T, want int) {
	t.Helper()
	line := fmt.Sprintf("cpupool_webhook_claims_known %d\n", want)
	eventually(t, "the metric "+line, func(ctx context.Context) error {
		if !strings.Contains(r.metricsNow(ctx, t), line) {
			return errorf("it has another value")
		}
		return nil
	})
}

// known waits until the webhook knows template du.
func known(t *testing.T, s *apiServer) {
	t.Helper()
	eventually(t, "the webhook knows the template", func(ctx context.Context) error {
		got, err := s.client(t, alice).CoreV1().Pods("apps").Create(ctx, claiming("dry", fromTemplate("du"), [2]string{"e", "cpu=1m"}), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && requests(got) != "cpu=1m" {
			err = errorf("the pod requests %s", requests(got))
		}
		return err
	})
}

// TestClaims checks which containers with ResourceClaims count for no pool, also of pods with spec.resources. Claims and
// templates count a moment after their creation.
func TestClaims(t *testing.T) {
	s, r := startWebhook(t)
	nodeWith(t, s, "n1", cores, shared, guaranteed)
	latched(t, s)
	countsAs(t, s, claiming("early", fromTemplate("du"), [2]string{"e", "cpu=1m"}), `resource claim "e" is not known to the webhook`, "cpu=1m "+shared+"=1")
	apply(t, s, "claims", []byte(claimObjects))
	r.claimsKnown(t, 1)
	known(t, s)
	one := "one"
	const whole = "cpu=2 memory=1Gi | cpu=2 memory=1Gi"
	countsAs(t, s, claiming("neighbour", fromTemplate("du"), [2]string{"e", whole}, [2]string{"", whole}), "", "cpu=2", "cpu=2 "+guaranteed+"=2k")
	countsAs(t, s, claiming("requests", fromTemplate("du"), [2]string{"e/cpus", "cpu=1"}, [2]string{"e/nic", "cpu=1"}), "", "cpu=1", "cpu=1 "+shared+"=1k")
	countsAs(t, s, claiming("by-name", corev1.PodResourceClaim{ResourceClaimName: &one}, [2]string{"e", "cpu=1"}), "", "cpu=1")
	countsAs(t, s, claiming("either", fromTemplate("either"), [2]string{"e", "cpu=1"}), `resource claim "e" can get CPUs or other devices`, "cpu=1 "+shared+"=1k")
	total := claiming("total", fromTemplate("du"), [2]string{"e", ""}, [2]string{"", ""})
	total.Spec.Resources = &newPod("", nil, "cpu=4 memory=4Gi | cpu=4 memory=4Gi").Spec.Containers[0].Resources
	countsAs(t, s, total, "", "", guaranteed+"=4k")
	extended := newPod("extended", nil, "cpu=1 example.com/cpus=1 | example.com/cpus=1")
	countsAs(t, s, extended, "", "cpu=1 example.com/cpus=1")
	implicit := newPod("implicit", nil, "cpu=1 deviceclass.resource.kubernetes.io/mine.example.com=1 | deviceclass.resource.kubernetes.io/mine.example.com=1")
	countsAs(t, s, implicit, "", "cpu=1 deviceclass.resource.kubernetes.io/mine.example.com=1")
}

// TestClaimsWithoutRight checks a webhook with an older role: pods with claims count by cpu, with a warning, until it
// may list the claims.
func TestClaimsWithoutRight(t *testing.T) {
	s := startAPIServer(t)
	prepare(t, s)
	may(t, s, "get")
	r := startReplica(t, s)
	send(t, s)
	nodeWith(t, s, "n1", cores, shared, guaranteed)
	latched(t, s)
	apply(t, s, "claims", []byte(claimObjects))
	r.claimsKnown(t, 0)
	countsAs(t, s, claiming("unknown", fromTemplate("du"), [2]string{"e", "cpu=1"}), `resource claim "e" is not known to the webhook`, "cpu=1 "+shared+"=1k")
	countsAs(t, s, newPod("without", nil, "cpu=1"), "", "cpu=1 "+shared+"=1k")
	may(t, s, "list", "watch")
	r.claimsKnown(t, 1)
	known(t, s)
	countsAs(t, s, claiming("known", fromTemplate("du"), [2]string{"e", "cpu=1"}), "", "cpu=1")
}

// may gives the webhook verbs for the objects of resource.k8s.io, and no others.
func may(t *testing.T, s *apiServer, verbs ...string) {
	t.Helper()
	roles := s.client(t, admin).RbacV1().ClusterRoles()
	role, err := roles.Get(t.Context(), installed, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range role.Rules {
		if slices.Contains(role.Rules[i].APIGroups, "resource.k8s.io") {
			role.Rules[i].Verbs = verbs
		}
	}
	if _, err := roles.Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestClaimsEarlier checks an API server without resource.k8s.io/v1, as before Kubernetes 1.34: the webhook counts pods
// with claims as other pods, without a warning.
func TestClaimsEarlier(t *testing.T) {
	args := append([]string{"--runtime-config=resource.k8s.io/v1=false"}, serverArgs()...)
	args[slices.Index(args, "Node,RBAC")] = "RBAC" // the authorizer of nodes waits for resource.k8s.io/v1
	s := &apiServer{address: processes.StartAPIServer(t, tokens, args...).Address}
	r := installWebhook(t, s)
	nodeWith(t, s, "n1", cores, shared, guaranteed)
	latched(t, s)
	r.claimsKnown(t, 1)
	countsAs(t, s, claiming("claim", fromTemplate("du"), [2]string{"e", "cpu=1"}), "", "cpu=1 "+shared+"=1k")
}
