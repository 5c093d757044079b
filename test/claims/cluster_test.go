//go:build apiserver

package claims_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/cpupoold/cpupoold/internal/dra"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/test/processes"
)

// waitTimeout bounds every wait. Only a failure uses it up.
const waitTimeout = 3 * time.Minute

const (
	admin   = processes.Admin
	account = "system:serviceaccount:cpupoold:cpupool-dra"
	feature = "DRANodeAllocatableResources"
)

func dryRun() metav1.CreateOptions { return metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}} }

// apiServer is a running API server with the objects of deploy/dra.
type apiServer struct{ *processes.APIServer }

// start starts an API server with feature gates, and applies the manifests of the driver. The
// Nodes are n1 and n2; the kubelet of n1 declares the feature of the mapping.
func start(t *testing.T, gates string) *apiServer {
	t.Helper()
	s := &apiServer{processes.StartAPIServer(t, "", args(gates)...)}
	s.namespace(t, "cpupoold")
	s.namespace(t, "apps")
	for _, file := range []string{"daemonset.yaml", "rbac.yaml", "policy.yaml", "deviceclass.yaml", "networkpolicy.yaml"} {
		s.apply(t, file)
	}
	s.node(t, "n1", feature)
	s.node(t, "n2")
	s.waitForPolicies(t)
	return s
}

func args(gates string) []string {
	return []string{"--authorization-mode", "Node,RBAC", "--enable-admission-plugins", "NodeRestriction", "--feature-gates", gates}
}

// config returns the configuration of a client. With a user, the administrator impersonates the user. node is
// the node of the user's token.
func (s *apiServer) config(user, node string) *rest.Config {
	c := &rest.Config{Host: "https://" + s.Address, BearerToken: admin, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: 1000, Burst: 1000}
	if user != admin {
		c.Impersonate.UserName = user
	}
	if node != "" {
		c.Impersonate.Extra = map[string][]string{"authentication.kubernetes.io/node-name": {node}}
	}
	return c
}

func (s *apiServer) client(t *testing.T, user, node string) *kubernetes.Clientset {
	t.Helper()
	c, err := kubernetes.NewForConfig(s.config(user, node))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// driver returns the client of a driver on a node.
func (s *apiServer) driver(t *testing.T, node string) *kubernetes.Clientset {
	t.Helper()
	return s.client(t, account, node)
}

// kubelet returns the client of the kubelet of a node.
func (s *apiServer) kubelet(t *testing.T, node string) *kubernetes.Clientset {
	t.Helper()
	config := s.config("system:node:"+node, "")
	config.Impersonate.Groups = []string{"system:nodes"}
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (s *apiServer) namespace(t *testing.T, name string) {
	t.Helper()
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := s.client(t, admin, "").CoreV1().Namespaces().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// node creates a Node with 16 CPUs, of which the kubelet reserves 8, and with features of its kubelet.
func (s *apiServer) node(t *testing.T, name string, features ...string) {
	t.Helper()
	nodes := s.client(t, admin, "").CoreV1().Nodes()
	n, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n.Status.DeclaredFeatures = features
	n.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("16")}
	n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8")}
	if _, err := nodes.UpdateStatus(t.Context(), n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// apply creates the objects of a file of deploy/dra.
func (s *apiServer) apply(t *testing.T, file string) {
	t.Helper()
	data, err := os.ReadFile("../../deploy/dra/" + file)
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(s.config(admin, ""))
	if err != nil {
		t.Fatal(err)
	}
	for documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			t.Fatal(err)
		}
		kind, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
		options := metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}
		if _, err := client.Resource(kind).Namespace(object.GetNamespace()).Create(t.Context(), object, options); err != nil {
			t.Fatalf("%s: %s %s: %v", file, object.GetKind(), object.GetName(), err)
		}
	}
}

// waitForPolicies waits until both policies are in force.
func (s *apiServer) waitForPolicies(t *testing.T) {
	t.Helper()
	eventually(t, "the policy of slices is in force", func(ctx context.Context) error {
		_, err := s.client(t, admin, "").ResourceV1().ResourceSlices().Create(ctx, slice("n1"), dryRun())
		return refusal(err, "only cpupool-dra may write")
	})
	claim := s.allocated(t, "policy", "n1", ours("n1"))
	eventually(t, "the policy of claims is in force", func(ctx context.Context) error {
		changed := claim.DeepCopy()
		changed.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: "u"}}
		_, err := s.driver(t, "n1").ResourceV1().ResourceClaims("apps").UpdateStatus(ctx, changed, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil || !strings.Contains(err.Error(), "does not change the allocation") && !strings.Contains(err.Error(), "resourceclaims/binding") {
			return fmt.Errorf("answer %w", err)
		}
		return nil
	})
}

// devices returns the devices of a daemon with four CPUs.
func devices() []resourcev1.Device {
	return dra.Devices([]inspect.ClaimDevice{{Name: "numa0", CPUs: cpuset.Of(2, 3, 10, 11), Step: 2, ThreadsPerCore: 2, L3s: 1, Packages: []int{0}}})
}

// slice returns the slice of a node, with a generated name.
func slice(node string) *resourcev1.ResourceSlice {
	s := dra.Slice(node, devices())
	s.GenerateName, s.Name = s.Name+"-", ""
	return s
}

// refusal returns an error unless err is a refusal with the text.
func refusal(err error, text string) error {
	switch {
	case err == nil:
		return fmt.Errorf("accepted; want a refusal with %q", text)
	case !strings.Contains(err.Error(), text):
		return fmt.Errorf("refused with %w; want %q", err, text)
	}
	return nil
}

func eventually(t *testing.T, subject string, ask func(context.Context) error) {
	t.Helper()
	processes.Eventually(t, waitTimeout, subject, ask)
}
