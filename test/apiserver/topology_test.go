//go:build apiserver

package apiserver_test

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// anyTopology is a resource of the name that matters; test/fleet has the real one.
const anyTopology = `{
	"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
	"metadata": {
		"name": "noderesourcetopologies.topology.node.k8s.io",
		"annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes/enhancements/pull/1870"}
	},
	"spec": {
		"group": "topology.node.k8s.io", "scope": "Cluster",
		"names": {"kind": "NodeResourceTopology", "listKind": "NodeResourceTopologyList", "plural": "noderesourcetopologies", "singular": "noderesourcetopology"},
		"versions": [{"name": "v1alpha2", "served": true, "storage": true,
			"schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]
	}
}`

// TestDaemonTopology checks that with deploy/topology/rbac.yaml a daemon can write the
// object of its own Node, and no other.
func TestDaemonTopology(t *testing.T) {
	s := startAPIServer(t)
	install(t, s, "../topology/rbac.yaml")
	all := s.client(t, admin).RESTClient()
	if err := all.Post().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").Body([]byte(anyTopology)).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	const objects = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies/"
	apply := func(ctx context.Context, on, name string) error {
		return daemonClient(t, s, on).Patch(types.ApplyYAMLPatchType).AbsPath(objects+name).Param("fieldManager", "cpupoold").
			Body([]byte(`{"apiVersion":"topology.node.k8s.io/v1alpha2","kind":"NodeResourceTopology","metadata":{"name":"` + name + `"},"zones":[]}`)).Do(ctx).Error()
	}
	const own = "may change the NodeResourceTopology of that Node only"
	eventually(t, "the policy is in force", func(ctx context.Context) error {
		if err := apply(ctx, "n1", "n2"); err == nil || !strings.Contains(err.Error(), own) {
			return errorf("answer %w", err)
		}
		return nil
	})
	if err := apply(t.Context(), "n1", "n1"); err != nil {
		t.Error(err)
	}
	if err := apply(t.Context(), "n2", "n2"); err != nil {
		t.Error(err)
	}
	refusedWith(t, "a token of no node", apply(t.Context(), "", "n1"), own)
	remove := func(on, name string) error {
		return daemonClient(t, s, on).Delete().AbsPath(objects + name).Do(t.Context()).Error()
	}
	refusedWith(t, "another node's", remove("n1", "n2"), own)
	if err := remove("n1", "n1"); err != nil {
		t.Error(err)
	}
}

// daemonClient is the daemon's account with a token that is bound to a node, or to none.
func daemonClient(t *testing.T, s *apiServer, node string) rest.Interface {
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
	return c.RESTClient()
}
