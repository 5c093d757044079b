//go:build apiserver

package apiserver_test

import (
	"context"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// impersonate returns a client of a user with every right. The policies still apply, so
// a refused request is refused by a policy.
func impersonate(t *testing.T, s *apiServer, user string, groups ...string) *kubernetes.Clientset {
	t.Helper()
	config := s.config(admin)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// twoAllowed checks that a pod has at most one of two types that its namespace allows,
// with the webhook and without.
func twoAllowed(t *testing.T, s *apiServer) {
	both := map[string]string{target: effect, "target.workload.openshift.io/infra": effect}
	namespaceNamed(t, s, "both", "management,infra")
	_, err := create(t, s, "both", newPod("p", both, "cpu=1 memory=1Gi"))
	refusedWith(t, "two allowed types", err, "there is another one")
	patch := `{"metadata":{"annotations":{"workload.openshift.io/allowed":"management,infra"}}}`
	exempt := s.client(t, admin).CoreV1().Namespaces()
	if _, err := exempt.Patch(t.Context(), "cpupoold", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "two types are refused as such, past the webhook", func(ctx context.Context) error {
		_, err := s.client(t, alice).CoreV1().Pods("cpupoold").Create(ctx, newPod("p", both, "cpu=1"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil || !strings.Contains(err.Error(), "asks for several workload types") {
			return errorf("answer %w", err)
		}
		return nil
	})
}

// containerTricks gives containers names that occur in annotations.
func containerTricks(t *testing.T, s *apiServer) {
	longest := strings.Repeat("a", 63)
	for name, want := range map[string]string{longest: cores + "=400", "pod": cores + "=400", "management": cores + "=400"} {
		pod := newPod("trick-"+name[:3], management(), "cpu=400m memory=1Gi")
		pod.Spec.Containers[0].Name = name
		got := becomes(t, s, "infra", pod, want)
		if got.Annotations["resources.workload.openshift.io/"+name] != `{"cpushares":409}` {
			t.Errorf("annotations of container %s = %v; want 409 shares", name, got.Annotations)
		}
	}
	for _, name := range []string{longest + "a", "a.b", "A", "a/b", "target.workload.openshift.io"} {
		pod := newPod("trick", management(), "cpu=400m memory=1Gi")
		pod.Spec.Containers[0].Name = name
		if _, err := create(t, s, "infra", pod); err == nil {
			t.Errorf("container name %s is accepted; want a refusal", name)
		}
	}
	// An init container and a container of the same name would share an annotation.
	twice := newPod("twice", management(), "cpu=400m memory=1Gi")
	twice.Spec.InitContainers = []corev1.Container{twice.Spec.Containers[0]}
	_, err := create(t, s, "infra", twice)
	refusedWith(t, "two containers of one name", err, "Duplicate value")
	// Annotations for a later debug container do not survive.
	got := becomes(t, s, "infra", newPod("smuggled", map[string]string{target: effect, "resources.workload.openshift.io/debug": `{"cpushares":262144}`},
		"cpu=400m memory=1Gi"), cores+"=400")
	if _, there := got.Annotations["resources.workload.openshift.io/debug"]; there {
		t.Errorf("annotations = %v; want none of the debug container", got.Annotations)
	}
}

// ephemeral containers join a pod that runs. Their way to it leads to no annotation.
func ephemeral(t *testing.T, s *apiServer, namespace string) {
	pods := s.client(t, alice).CoreV1().Pods(namespace)
	pod, err := create(t, s, namespace, newPod("debugged", nil, "cpu=1"))
	if err != nil {
		t.Fatal(err)
	}
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		Name: "debug", Image: "x", TerminationMessagePolicy: corev1.TerminationMessageReadFile, ImagePullPolicy: corev1.PullAlways,
	}}}
	pod.Annotations = map[string]string{target: effect, "resources.workload.openshift.io/debug": `{"cpushares":262144}`}
	got, err := pods.UpdateEphemeralContainers(t.Context(), pod.Name, pod, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Spec.EphemeralContainers) != 1 || len(got.Annotations) > 0 {
		t.Errorf("the pod has %d debug containers and the annotations %v, want one and none", len(got.Spec.EphemeralContainers), got.Annotations)
	}
}

// identities checks that the namespace alone decides about a pod, for each user that
// creates it. Only a node may create its own static pods.
func identities(t *testing.T, s *apiServer) {
	claim := newPod("from-template", map[string]string{"target.workload.openshift.io/other": effect}, "cpu=1 memory=1Gi")
	mirror := newPod("forged-by", map[string]string{target: effect, "kubernetes.io/config.mirror": "x", "kubernetes.io/config.source": "file"}, "")
	mirror.Spec.NodeName = "n1"
	for name, c := range map[string]struct {
		user   string
		groups []string
		pod    *corev1.Pod
		want   string
	}{
		"a controller, by its template":   {"system:serviceaccount:kube-system:replicaset-controller", []string{"system:masters"}, claim, "does not allow workload type other"},
		"an administrator":                {"root", []string{"system:masters"}, claim, "does not allow workload type other"},
		"a user named like a node":        {"system:node:n1", []string{"system:masters"}, mirror, "claims to be static"},
		"a user of the group of nodes":    {"someone", []string{"system:masters", "system:nodes"}, mirror, "claims to be static"},
		"another node":                    {"system:node:n2", []string{"system:masters", "system:nodes"}, mirror, "can only create pods with spec.nodeName set to itself"},
		"a node, a pod that is no mirror": {"system:node:n1", []string{"system:masters", "system:nodes"}, claim, "can only create mirror pods"},
	} {
		_, err := impersonate(t, s, c.user, c.groups...).CoreV1().Pods("cpupoold").Create(t.Context(), c.pod, metav1.CreateOptions{})
		refusedWith(t, name, err, c.want)
	}
	// A later update cannot mark a pod as static either.
	for _, patch := range []string{
		`{"metadata":{"annotations":{"kubernetes.io/config.mirror":"x"}}}`,
		`{"metadata":{"annotations":{"kubernetes.io/config.source":"file","` + target + `":"{}"}}}`,
	} {
		if _, err := s.client(t, alice).CoreV1().Pods("cpupoold").Patch(t.Context(), "debugged", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err == nil {
			t.Errorf("patch %s of a pod is accepted; want a refusal", patch)
		}
	}
}

// namespaceRights checks that an administrator of a namespace cannot change its allowed
// types, and that a later permission does not change existing pods.
func namespaceRights(t *testing.T, s *apiServer) {
	c := s.client(t, admin)
	for _, role := range []string{"system:aggregate-to-admin", "system:aggregate-to-edit", "system:aggregate-to-view"} { // roles that admin aggregates
		if _, err := c.RbacV1().RoleBindings("apps").Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: strings.TrimPrefix(role, "system:")},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "owner"}},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	owner := impersonate(t, s, "owner")
	eventually(t, "the namespace's owner has rights", func(ctx context.Context) error {
		_, err := owner.CoreV1().Pods("apps").Create(ctx, newPod("x", nil, ""), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
	patch := []byte(`{"metadata":{"annotations":{"workload.openshift.io/allowed":"management"}}}`)
	_, err := owner.CoreV1().Namespaces().Patch(t.Context(), "apps", types.MergePatchType, patch, metav1.PatchOptions{})
	refusedWith(t, "the namespace's owner allows a type", err, "cannot patch resource")
	_, err = owner.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "own", Annotations: map[string]string{"workload.openshift.io/allowed": "management"},
	}}, metav1.CreateOptions{})
	refusedWith(t, "the namespace's owner makes one that allows a type", err, "cannot create resource")

	namespaceNamed(t, s, "allowed-later", "")
	before := becomes(t, s, "allowed-later", newPod("before", management(), "cpu=400m memory=1Gi"), "cpu=400m "+shared+"=400")
	allow(t, s, "allowed-later")
	_, err = s.client(t, alice).CoreV1().Pods("allowed-later").Patch(t.Context(), before.Name, types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"`+target+`":"{}"}}}`), metav1.PatchOptions{})
	refusedWith(t, "annotate a pod when its namespace has allowed the type", err, "cannot be changed")
}

// TestDomain changes the policies as docs/how-to/install-webhook.md says, for another domain of
// annotations: they hold for that one and for no other.
func TestDomain(t *testing.T) {
	s := startAPIServer(t)
	letAlice(t, s)
	data, err := os.ReadFile("../../deploy/webhook/trust.yaml")
	if err != nil {
		t.Fatal(err)
	}
	apply(t, s, "trust.yaml", []byte(strings.NewReplacer("workload.openshift.io", "cpu.example.org", "io.openshift.workload", "org.example.cpu").Replace(string(data))))
	namespaceNamed(t, s, "apps", "management") // by the other domain's annotation
	if _, err := s.client(t, admin).CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "infra", Annotations: map[string]string{"cpu.example.org/allowed": "management"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const asks = "target.cpu.example.org/management"
	eventually(t, "the policy is in force", func(ctx context.Context) error {
		_, err := s.client(t, alice).CoreV1().Pods("apps").Create(ctx, newPod("x", map[string]string{asks: effect}, "cpu=1"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil || !strings.Contains(err.Error(), "does not allow workload type management") {
			return errorf("answer %w", err)
		}
		return nil
	})
	own := "management.cpu.example.org/cores=400"
	for name, c := range map[string]struct {
		annotations map[string]string
		resources   string
		want        string
	}{
		"as the webhook does it": {map[string]string{asks: effect, "resources.cpu.example.org/app": `{"cpushares":409}`}, own + " memory=1Gi | " + own, ""},
		"too many shares":        {map[string]string{asks: effect, "resources.cpu.example.org/app": `{"cpushares":409000}`}, "", "not as the webhook writes it"},
		"the old form":           {map[string]string{"org.example.cpu.management.cpushares/app": "9"}, "", "gives a container CPUs or shares"},
		"the old form's cpuset":  {map[string]string{"org.example.cpu.management.cpuset/app": "0-3"}, "", "gives a container CPUs or shares"},
		"the other old form":     {map[string]string{"io.openshift.workload.management.cpuset/app": "0-3"}, "", ""},
		"cores without a type":   {nil, own + " | " + own, "requests the CPUs of a workload type"},
		"the other domain":       {map[string]string{"target.workload.openshift.io/x": "x"}, "cpu=1", ""},
	} {
		_, err := s.client(t, alice).CoreV1().Pods("infra").Create(t.Context(), newPod("p", c.annotations, c.resources), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if c.want != "" {
			refusedWith(t, name, err, c.want)
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
