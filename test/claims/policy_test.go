//go:build apiserver

package claims_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/cpupoold/cpupoold/internal/dra"
)

// with returns a slice of n1 with a change.
func with(change func(*resourcev1.ResourceSlice)) *resourcev1.ResourceSlice {
	s := slice("n1")
	change(s)
	return s
}

// testSlices checks which users may create, change and delete which slices.
func testSlices(t *testing.T, s *apiServer) {
	const (
		own    = "may change ResourceSlices with the driver cpu.cpupoold.io and this nodeName only"
		pool   = "may publish the pool with the name of the node only"
		others = "only cpupool-dra may write ResourceSlices of the driver cpu.cpupoold.io"
	)
	selector := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"n1"}}},
	}}}
	otherDriver := func(s *resourcev1.ResourceSlice) { s.Spec.Driver = "gpu.example.com" }
	for _, c := range []struct {
		name, user, node string
		slice            *resourcev1.ResourceSlice
		want             string // part of the refusal; empty: accepted
	}{
		{"its own", account, "n1", slice("n1"), ""},
		{"without devices", account, "n1", with(func(s *resourcev1.ResourceSlice) { s.Spec.Devices = nil }), ""},
		{"a foreign node's", account, "n2", slice("n1"), own},
		{"a token of no node", account, "", slice("n1"), own},
		{"all nodes", account, "n1", with(func(s *resourcev1.ResourceSlice) { s.Spec.NodeName, s.Spec.AllNodes = nil, ptr.To(true) }), own},
		{"a node selector", account, "n1", with(func(s *resourcev1.ResourceSlice) { s.Spec.NodeName, s.Spec.NodeSelector = nil, selector }), own},
		{"nodes for each device", account, "n1", with(func(s *resourcev1.ResourceSlice) {
			s.Spec.NodeName, s.Spec.PerDeviceNodeSelection = nil, ptr.To(true)
			s.Spec.Devices[0].NodeName = ptr.To("n2")
		}), own},
		{"the pool of another node", account, "n1", with(func(s *resourcev1.ResourceSlice) { s.Spec.Pool.Name = "n2" }), pool},
		{"another pool", account, "n1", with(func(s *resourcev1.ResourceSlice) { s.Spec.Pool.Name = "n1/second" }), pool},
		{"another driver's", account, "n1", with(otherDriver), own},
		{"from an administrator", admin, "", slice("n1"), others},
		{"from an administrator, for all nodes", admin, "", with(func(s *resourcev1.ResourceSlice) { s.Spec.NodeName, s.Spec.AllNodes = nil, ptr.To(true) }), others},
		{"another driver's, from an administrator", admin, "", with(otherDriver), ""},
		{"from the account of the daemon", "system:serviceaccount:cpupoold:cpupoold", "n1", slice("n1"), "forbidden"},
		{"from an account with the name in another namespace", "system:serviceaccount:apps:cpupool-dra", "n1", slice("n1"), "forbidden"},
	} {
		_, err := s.client(t, c.user, c.node).ResourceV1().ResourceSlices().Create(t.Context(), c.slice, dryRun())
		check(t, "create: "+c.name, err, c.want)
	}
	first, err := s.driver(t, "n1").ResourceV1().ResourceSlices().Create(t.Context(), slice("n1"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	another, err := s.client(t, admin, "").ResourceV1().ResourceSlices().Create(t.Context(), with(otherDriver), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	fewer := func(s *resourcev1.ResourceSlice) { s.Spec.Devices = nil }
	label := func(s *resourcev1.ResourceSlice) { s.Labels = map[string]string{"a": "b"} }
	for _, c := range []struct {
		name, user, node string
		slice            *resourcev1.ResourceSlice
		change           func(*resourcev1.ResourceSlice)
		want             string
	}{
		{"a foreign node's", account, "n2", first, fewer, own},
		{"another driver's", account, "n1", another, fewer, own},
		{"from an administrator", admin, "", first, fewer, others},
		{"metadata, from an administrator", admin, "", first, label, ""},
		{"another driver's, from an administrator", admin, "", another, fewer, ""},
	} {
		changed := c.slice.DeepCopy()
		c.change(changed)
		_, err := s.client(t, c.user, c.node).ResourceV1().ResourceSlices().Update(t.Context(), changed, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		check(t, "update: "+c.name, err, c.want)
	}
	_, err = s.driver(t, "n1").ResourceV1().ResourceSlices().Patch(t.Context(), first.Name, types.MergePatchType, []byte(`{"spec":{"devices":[]}}`), metav1.PatchOptions{})
	check(t, "patch", err, "forbidden")
	for _, c := range []struct {
		name, user, node string
		slice            *resourcev1.ResourceSlice
		want             string
	}{
		{"a foreign node's", account, "n2", first, own},
		{"another driver's", account, "n1", another, own},
		{"its own", account, "n1", first, ""},
		{"from an administrator", admin, "", first, ""},
	} {
		err := s.client(t, c.user, c.node).ResourceV1().ResourceSlices().Delete(t.Context(), c.slice.Name, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		check(t, "delete: "+c.name, err, c.want)
	}
	// The kubelet deletes the slices of a driver that is gone.
	gone := metav1.ListOptions{FieldSelector: "spec.nodeName=n1,spec.driver=" + dra.Driver}
	if err := s.kubelet(t, "n1").ResourceV1().ResourceSlices().DeleteCollection(t.Context(), metav1.DeleteOptions{}, gone); err != nil {
		t.Errorf("the kubelet deletes slices: %v", err)
	}
	if left, err := s.client(t, admin, "").ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{}); err != nil || len(left.Items) != 1 || left.Items[0].Name != another.Name {
		t.Errorf("slices %v, error %v; want only %s", left, err, another.Name)
	}
	if err := s.client(t, admin, "").ResourceV1().ResourceSlices().Delete(t.Context(), another.Name, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

// check compares an error with the refusal that is wanted.
func check(t *testing.T, name string, err error, want string) {
	t.Helper()
	if want == "" {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		return
	}
	if err := refusal(err, want); err != nil {
		t.Errorf("%s: %v", name, err)
	}
}
