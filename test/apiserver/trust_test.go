//go:build apiserver

package apiserver_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// trust tries the ways onto management CPUs that lead past the webhook: the namespace
// cpupoold, where it is not asked, and annotations that come later.
func trust(t *testing.T, s *apiServer) {
	const exempt = "cpupoold"
	eventually(t, "the policy is in force", policyInForce(t, s))
	other := func(annotations ...string) map[string]string {
		m := map[string]string{}
		for i := 0; i < len(annotations); i += 2 {
			m[annotations[i]] = annotations[i+1]
		}
		return m
	}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want string // part of the refusal; empty: made
	}{
		"plain":                  {newPod("a", nil, "cpu=1"), ""},
		"as the webhook does it": {newPod("b", other(target, effect, shares, `{"cpushares":409,"cpulimit":500}`), cores+"=400 memory=1Gi | "+cores+"=400"), ""},
		"best effort":            {newPod("c", other(target, effect, shares, `{"cpushares":2}`), ""), ""},
		"a limit alone":          {newPod("d", other(target, effect, shares, `{"cpulimit":500}`), ""), ""},
		"another type":           {newPod("e", other("target.workload.openshift.io/infra", effect), "cpu=1"), "does not allow workload type infra"},
		"a type with a blank":    {newPod("f", other("target.workload.openshift.io/Management", effect), "cpu=1"), "does not allow workload type Management"},
		"two types":              {newPod("g", other(target, effect, "target.workload.openshift.io/infra", effect), "cpu=1"), "workload type"},
		"shares without a type":  {newPod("h", other(shares, `{"cpushares":409}`), "cpu=1"), "none asks for a workload type"},
		"the old form":           {newPod("i", other(target, effect, "io.openshift.workload.management.cpushares/app", "409"), ""), "gives a container CPUs or shares"},
		"no such container":      {newPod("j", other(target, effect, "resources.workload.openshift.io/debug", `{"cpushares":2}`), ""), "that the pod does not have"},
		"a cpuset":               {newPod("k", other(target, effect, shares, `{"cpuset":"0-3"}`), ""), "not as the webhook writes it"},
		"cores without a type":   {newPod("l", nil, cores+"=400 | "+cores+"=400"), "requests the CPUs of a workload type"},
		"another type's cores":   {newPod("m", other(target, effect), "infra.workload.openshift.io/cores=1 | infra.workload.openshift.io/cores=1"), "requests the CPUs"},
		"unplaced, allowed":      {newPod("o", other("nri.cpupoold.io/tolerate-missing", "true"), "cpu=1"), ""},
		"the most shares":        {newPod("p", other(target, effect, shares, `{"cpushares":262144,"cpulimit":999999999}`), ""), ""},
		"a comma and no shares":  {newPod("q", other(target, effect, shares, `{,"cpulimit":5}`), ""), "not as the webhook writes it"},
		"a comma at the end":     {newPod("q", other(target, effect, shares, `{"cpushares":5,}`), ""), "not as the webhook writes it"},
		"1 share":                {newPod("q", other(target, effect, shares, `{"cpushares":1}`), ""), "not as the webhook writes it"},
		"too many shares":        {newPod("q", other(target, effect, shares, `{"cpushares":262145,"cpulimit":500}`), ""), "not as the webhook writes it"},
		"no limit":               {newPod("q", other(target, effect, shares, `{"cpushares":2,"cpulimit":0}`), ""), "not as the webhook writes it"},
		"an endless limit":       {newPod("q", other(target, effect, shares, `{"cpushares":2,"cpulimit":1000000000}`), ""), "not as the webhook writes it"},
		"a line more":            {newPod("q", other(target, effect, shares, "{\"cpushares\":2}\n{\"cpuset\":\"0\"}"), ""), "not as the webhook writes it"},
		"shares twice":           {newPod("q", other(target, effect, shares, `{"cpushares":2,"cpushares":9}`), ""), "not as the webhook writes it"},
		"of another name":        {newPod("q", other(target, effect, "resources.workload.openshift.io/App", `{"cpushares":2}`), ""), "that the pod does not have"},
		"of the pause container": {newPod("q", other(target, effect, "resources.workload.openshift.io/POD", `{"cpushares":2}`), ""), "that the pod does not have"},
		"a name with a dot":      {newPod("q", other(target, effect, "resources.workload.openshift.io/app.x", `{"cpushares":2}`), ""), "that the pod does not have"},
		"a type without a name":  {newPod("q", other("target.workload.openshift.io/", effect), ""), "must be non-empty"},
		"the old form's type":    {newPod("q", other("io.openshift.workload.a.b.cpushares/app", "9"), ""), "gives a container CPUs or shares"},
		"the old form's cpuset":  {newPod("r", other(target, effect, "io.openshift.workload.management.cpuset/app", "0-3"), ""), "gives a container CPUs or shares"},
		"no resource in it":      {newPod("r", other(target, effect, "io.openshift.workload.management/app", `{"cpuset":"0-3"}`), ""), "gives a container CPUs or shares"},
		"a cpuset and no type":   {newPod("r", other("io.openshift.workload.management.cpuset/app", "0-3"), "cpu=1"), "gives a container CPUs or shares"},
		"names of another form":  {newPod("r", other("io.openshift.workload.management.cpuset", "x", "io.openshift.workloads.a.cpuset/app", "x"), "cpu=1"), ""},
		"claims to be static":    {newPod("n", other(target, effect, "kubernetes.io/config.source", "file"), "cpu=1"), "claims to be static"},
	} {
		_, err := create(t, s, exempt, c.pod)
		if c.want == "" && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if c.want != "" {
			refusedWith(t, name, err, c.want)
		}
	}
	_, err := create(t, s, "apps", newPod("unplaced", other("nri.cpupoold.io/tolerate-missing", "true"), "cpu=1"))
	refusedWith(t, "unplaced, where no type is allowed", err, "may run on any CPUs")
	byName(t, s)
	later(t, s, exempt)
	bindings(t, s, exempt)
	mirrors(t, s)
	t.Run("two allowed types", func(t *testing.T) { twoAllowed(t, s) })
	t.Run("containers", func(t *testing.T) { containerTricks(t, s) })
	t.Run("ephemeral containers", func(t *testing.T) { ephemeral(t, s, exempt) })
	t.Run("identities", func(t *testing.T) { identities(t, s) })
	t.Run("namespaces", func(t *testing.T) { namespaceRights(t, s) })
}

// byName checks that the namespace of the daemon allows its workload type without an
// annotation, as helm install --create-namespace makes it, and that an annotation has
// precedence.
func byName(t *testing.T, s *apiServer) {
	annotate := func(value string) {
		t.Helper()
		patch := []byte(`{"metadata": {"annotations": {"workload.openshift.io/allowed": ` + value + `}}}`)
		if _, err := s.client(t, admin).CoreV1().Namespaces().Patch(t.Context(), "cpupoold", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	try := func(ctx context.Context) error {
		pod := newPod("by-name", map[string]string{target: effect}, "")
		_, err := s.client(t, alice).CoreV1().Pods("cpupoold").Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	annotate(`"infra"`)
	eventually(t, "another annotation refuses the pod", func(ctx context.Context) error {
		if err := try(ctx); err == nil || !strings.Contains(err.Error(), "does not allow workload type management") {
			return errorf("the pod: %v", err)
		}
		return nil
	})
	annotate("null")
	eventually(t, "without an annotation the pod is allowed", try)
	annotate(`"management"`)
}

// later changes the immutable annotations, in each possible way.
func later(t *testing.T, s *apiServer, namespace string) {
	t.Helper()
	pods := s.client(t, alice).CoreV1().Pods(namespace)
	for _, c := range []struct{ pod, patch, want string }{
		{"a", `{"metadata":{"annotations":{"` + target + `":"{}"}}}`, "cannot be changed"},
		{"b", `{"metadata":{"annotations":{"` + target + `":null}}}`, "cannot be changed"},
		{"b", `{"metadata":{"annotations":{"` + shares + `":"{}"}}}`, "cannot be changed"},
		{"b", `{"metadata":{"annotations":{"io.openshift.workload.management.cpushares/app":"2"}}}`, "cannot be changed"},
		{"b", `{"metadata":{"annotations":{"io.openshift.workload.management.cpuset/app":"0-3"}}}`, "cannot be changed"},
		{"a", `{"metadata":{"annotations":{"io.openshift.workload.management/app":"{}"}}}`, "cannot be changed"},
		{"a", `{"metadata":{"annotations":{"nri.cpupoold.io/tolerate-missing":"true"}}}`, "cannot be changed"},
		{"b", `{"metadata":{"annotations":{"other":"1"},"labels":{"a":"b"}}}`, ""},
	} {
		for _, subresource := range []string{"", "status"} {
			var sub []string
			if subresource != "" {
				sub = []string{subresource}
			}
			_, err := pods.Patch(t.Context(), c.pod, types.MergePatchType, []byte(c.patch), metav1.PatchOptions{}, sub...)
			if c.want != "" {
				refusedWith(t, "patch "+c.patch+" of "+c.pod+" "+subresource, err, c.want)
			} else if err != nil {
				t.Errorf("patch %s of %s %s: %v", c.patch, c.pod, subresource, err)
			}
		}
	}
}

// bindings bring annotations along, which the API server gives to the pod.
func bindings(t *testing.T, s *apiServer, namespace string) {
	t.Helper()
	pods := s.client(t, alice).CoreV1().Pods(namespace)
	binding := func(annotations map[string]string) *corev1.Binding {
		return &corev1.Binding{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Binding"},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a", Annotations: annotations},
			Target:     corev1.ObjectReference{Kind: "Node", Name: "n1"},
		}
	}
	bind := func(annotations map[string]string) error {
		return pods.Bind(t.Context(), binding(annotations), metav1.CreateOptions{})
	}
	for _, key := range []string{target, shares, "io.openshift.workload.management.cpushares/app", "io.openshift.workload.management.cpuset/app", "nri.cpupoold.io/tolerate-missing"} {
		annotations := map[string]string{key: effect}
		refusedWith(t, "a binding with "+key, bind(annotations), "a binding must not have annotations")
		// The same, by the older path.
		err := s.client(t, alice).CoreV1().RESTClient().Post().Namespace(namespace).Resource("bindings").Body(binding(annotations)).Do(t.Context()).Error()
		refusedWith(t, "a binding with "+key+", past the pod", err, "a binding must not have annotations")
	}
	if err := bind(map[string]string{"other": "1"}); err != nil {
		t.Errorf("a binding: %v", err)
	}
}

// mirrors are made by nodes, each its own, in any namespace.
func mirrors(t *testing.T, s *apiServer) {
	t.Helper()
	mirror := func(name string) *corev1.Pod {
		pod := newPod(name, map[string]string{
			target: effect, shares: `{"cpushares":409}`,
			"kubernetes.io/config.mirror": "x", "kubernetes.io/config.source": "file",
		}, "memory=1Gi")
		pod.Spec.NodeName = "n1"
		return pod
	}
	n1, err := s.client(t, admin).CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	own := mirror("etcd-n1")
	yes := true
	own.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n1", UID: n1.UID, Controller: &yes}}
	got, err := s.client(t, node).CoreV1().Pods("apps").Create(t.Context(), own, metav1.CreateOptions{})
	if err != nil {
		t.Errorf("a node's mirror pod: %v", err)
	} else if got.Annotations[target] != effect || got.Annotations[shares] == "" {
		t.Errorf("annotations of a node's mirror pod = %v; want type and shares", got.Annotations)
	}
	got, err = create(t, s, "apps", mirror("forged"))
	if err != nil || got.Annotations[target] != "" || got.Annotations[shares] != "" {
		t.Errorf("alice's mirror pod: %v, annotations %v; want none of a workload type", err, got.Annotations)
	}
	_, err = create(t, s, "cpupoold", mirror("forged"))
	refusedWith(t, "alice's mirror pod, past the webhook", err, "claims to be static")
}

// policyInForce sends requests that only the policies refuse, one for each of them.
func policyInForce(t *testing.T, s *apiServer) func(context.Context) error {
	return func(ctx context.Context) error {
		dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
		pods := s.client(t, alice).CoreV1().Pods("cpupoold")
		_, ofPods := pods.Create(ctx, newPod("x", map[string]string{shares: "{}"}, ""), dry)
		ofBindings := pods.Bind(ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: "cpupoold", Name: "x", Annotations: map[string]string{shares: "{}"}},
			Target:     corev1.ObjectReference{Kind: "Node", Name: "n1"},
		}, dry)
		for policy, err := range map[string]error{"cpupool-pods": ofPods, "cpupool-bindings": ofBindings} {
			if err == nil || !strings.Contains(err.Error(), policy) {
				return errorf("policy %s: answer %w", policy, err)
			}
		}
		return nil
	}
}
