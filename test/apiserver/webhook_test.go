//go:build apiserver

package apiserver_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

var program = flag.String("webhook", "../../bin/cpupool-webhook", "the program to test, as make build makes it")

const installed = "cpupool-webhook" // namespace, service and account of deploy/webhook

// install applies a file of deploy/webhook.
func install(t *testing.T, s *apiServer, file string) {
	t.Helper()
	data, err := os.ReadFile("../../deploy/webhook/" + file)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, s, file, data)
}

// apply makes the objects of a file.
func apply(t *testing.T, s *apiServer, file string, data []byte) {
	t.Helper()
	client, err := dynamic.NewForConfig(s.config(admin))
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

// A replica is a cpupool-webhook that runs as its Deployment would run it.
type replica struct {
	*process
	address, probes string
	metrics         string
	dir             string // with its certificate
}

// startReplica starts a replica, waits until it is ready, and makes it the only one behind
// the service.
func startReplica(t *testing.T, s *apiServer) *replica {
	t.Helper()
	r := launch(t, s)
	r.await(t, s)
	noEndpoints(t, s)
	endpoint(t, s, installed, r.address)
	return r
}

// launch starts the program with the rights of its account.
func launch(t *testing.T, s *apiServer) *replica {
	t.Helper()
	c, dir := s.client(t, admin), t.TempDir()
	token, err := c.CoreV1().ServiceAccounts(installed).CreateToken(t.Context(), installed, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: "https://" + s.address, InsecureSkipTLSVerify: true}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: token.Status.Token}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	}, kubeconfig); err != nil {
		t.Fatal(err)
	}
	shipped, err := c.CoreV1().ConfigMaps(installed).Get(t.Context(), installed, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r := &replica{dir: dir, address: net.JoinHostPort(ownAddress(t), freePort(t)), probes: "127.0.0.1:" + freePort(t), metrics: "127.0.0.1:" + freePort(t)}
	write(t, filepath.Join(dir, "config.yaml"), fmt.Appendf([]byte(shipped.Data["config.yaml"]),
		"\nlistenAddress: %s\nprobeAddress: %s\nmetricsAddress: %s\ncertificateDir: %s\ndrainPeriod: 1s\n", r.address, r.probes, r.metrics, dir))
	r.process = start(t, "cpupool-webhook", *program, "--config", filepath.Join(dir, "config.yaml"),
		"--namespace", installed, "--kubeconfig", kubeconfig)
	return r
}

// await brings the replica its Secret, as the kubelet does, and waits until it is ready.
func (r *replica) await(t *testing.T, s *apiServer) {
	t.Helper()
	eventually(t, "the webhook fills its Secret", func(ctx context.Context) error {
		secret, err := s.client(t, admin).CoreV1().Secrets(installed).Get(ctx, "cpupool-webhook-tls", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(secret.Data["tls.crt"]) == 0 {
			return errorf("it is empty")
		}
		bring(t, r.dir, secret)
		return nil
	})
	eventually(t, "the webhook is ready", r.ready)
}

// bring brings a replica its Secret.
func bring(t *testing.T, dir string, secret *corev1.Secret) {
	t.Helper()
	for name, data := range secret.Data {
		write(t, filepath.Join(dir, name+".new"), data)
	}
	for name := range secret.Data { // tls.crt is waited for, and comes last
		if name != "tls.crt" {
			rename(t, dir, name)
		}
	}
	rename(t, dir, "tls.crt")
}

func rename(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.Rename(filepath.Join(dir, name+".new"), filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

func (r *replica) ready(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.probes+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errorf("status %s", response.Status)
	}
	return nil
}

// ownAddress is an address of this machine: endpoints on the loopback are refused.
func ownAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && n.IP.To4() != nil {
			return n.IP.String()
		}
	}
	t.Fatal("this machine has no IPv4 address but the loopback's, which no endpoint of a service can have; add one to a dummy interface")
	return ""
}

// endpoint adds an address to the service, as the EndpointSlice of that name.
func endpoint(t *testing.T, s *apiServer, name, address string) {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	of, at, ready, tcp := "reviews", int32(number), true, corev1.ProtocolTCP
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: installed}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{host}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
		Ports:       []discoveryv1.EndpointPort{{Name: &of, Port: &at, Protocol: &tcp}},
	}
	if _, err := s.client(t, admin).DiscoveryV1().EndpointSlices(installed).Create(t.Context(), slice, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// noEndpoints removes all addresses of the service.
func noEndpoints(t *testing.T, s *apiServer) {
	t.Helper()
	slices := s.client(t, admin).DiscoveryV1().EndpointSlices(installed)
	if err := slices.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
}

// namespaceNamed makes a namespace.
func namespaceNamed(t *testing.T, s *apiServer, name, allowed string) {
	t.Helper()
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if allowed != "" {
		n.Annotations = map[string]string{"workload.openshift.io/allowed": allowed}
	}
	if _, err := s.client(t, admin).CoreV1().Namespaces().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// letAlice gives alice the rights of an author of pods.
func letAlice(t *testing.T, s *apiServer) {
	t.Helper()
	rbac := s.client(t, admin).RbacV1()
	if _, err := rbac.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: alice},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Verbs: []string{"*"},
			Resources: []string{"pods", "pods/status", "pods/resize", "pods/ephemeralcontainers", "pods/binding", "bindings"},
		}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := rbac.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: alice},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: alice},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: alice}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// nodeWith makes a node that advertises resources, 4000 of each.
func nodeWith(t *testing.T, s *apiServer, name string, resources ...string) {
	t.Helper()
	nodes := s.client(t, admin).CoreV1().Nodes()
	n, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n.Status.Allocatable = corev1.ResourceList{}
	for _, r := range resources {
		n.Status.Allocatable[corev1.ResourceName(r)] = resource.MustParse("4000")
	}
	n.Status.Capacity = n.Status.Allocatable
	if _, err := nodes.UpdateStatus(t.Context(), n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}
