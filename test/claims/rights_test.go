//go:build apiserver

package claims_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// testRights asks the API server about each resource and verb. It compares the rights that only the driver has, and
// not each account.
func testRights(t *testing.T, s *apiServer) {
	want := []string{
		"/nodes get",
		"resource.k8s.io/resourceclaims get",
		"resource.k8s.io/resourceclaims/driver associated-node:patch cpu.cpupoold.io",
		"resource.k8s.io/resourceclaims/driver associated-node:update cpu.cpupoold.io",
		"resource.k8s.io/resourceclaims/status patch",
		"resource.k8s.io/resourceclaims/status update",
		"resource.k8s.io/resourceslices create",
		"resource.k8s.io/resourceslices delete",
		"resource.k8s.io/resourceslices list",
		"resource.k8s.io/resourceslices update",
		"resource.k8s.io/resourceslices watch",
	}
	client := s.client(t, admin, "")
	_, lists, err := client.Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	asked := 0
	has := func(user, group, resource, sub, verb, name string) bool {
		review, err := client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:cpupoold", "system:authenticated"},
			Extra:              map[string]authorizationv1.ExtraValue{"authentication.kubernetes.io/node-name": {"n1"}},
			ResourceAttributes: &authorizationv1.ResourceAttributes{Group: group, Resource: resource, Subresource: sub, Verb: verb, Name: name},
		}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		asked++
		return review.Status.Allowed
	}
	ask := func(group, resource, verb, name string) {
		resource, sub, _ := strings.Cut(resource, "/")
		if has(account, group, resource, sub, verb, name) && !has("system:serviceaccount:cpupoold:default", group, resource, sub, verb, name) {
			got = append(got, strings.TrimSuffix(group+"/"+strings.TrimSuffix(resource+"/"+sub, "/")+" "+verb+" "+name, " "))
		}
	}
	seen := make(map[string]bool)
	for _, list := range lists {
		group, _, versioned := strings.Cut(list.GroupVersion, "/")
		if !versioned {
			group = ""
		}
		for _, r := range list.APIResources {
			if seen[group+"/"+r.Name] {
				continue // another version
			}
			seen[group+"/"+r.Name] = true
			for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "impersonate", "escalate", "bind", "approve"} {
				ask(group, r.Name, verb, "")
			}
		}
	}
	for _, verb := range []string{"associated-node:patch", "associated-node:update", "arbitrary-node:patch", "arbitrary-node:update", "update", "patch"} {
		for _, name := range []string{"cpu.cpupoold.io", "nic.example.com", ""} {
			ask("resource.k8s.io", "resourceclaims/driver", verb, name)
		}
		ask("resource.k8s.io", "resourceclaims/binding", verb, "")
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rights: -want +got:\n%s", diff)
	}
	if asked < 500 {
		t.Errorf("%d questions; want all resources and verbs", asked)
	}
}
