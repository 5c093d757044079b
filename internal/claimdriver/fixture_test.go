package claimdriver_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/cpupoold/cpupoold/internal/dra"
	"github.com/cpupoold/cpupoold/internal/testing/claimnode"
)

// node is a node with a fake API server.
type node struct {
	*claimnode.Node
	api *fake.Clientset
}

// newNode returns a node. The API server has its Node and the objects.
func newNode(t *testing.T, objects ...runtime.Object) *node {
	t.Helper()
	api := fake.NewClientset(append(objects, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker", UID: uid(0)}})...)
	return &node{claimnode.New(t, "worker", api), api}
}

// uids are UIDs in the notation of the API.
func uid(n int) types.UID { return types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", n)) }

// claim returns a claim with request cpus for CPUs of a device, for a pod of the node.
func claim(n int, device, cpus string) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ran", Name: fmt.Sprintf("du-%d", n), UID: uid(n),
		Annotations: map[string]string{resourcev1.PodResourceClaimAnnotation: "cpus"},
	}}
	c.Status.Allocation = new(resourcev1.AllocationResult)
	c.Status.Allocation.Devices.Results = []resourcev1.DeviceRequestAllocationResult{{
		Request: "cpus", Driver: dra.Driver, Pool: "worker", Device: device, ShareID: new(uid(n + 1000)),
		ConsumedCapacity: map[resourcev1.QualifiedName]resource.Quantity{dra.Capacity: resource.MustParse(cpus)},
	}}
	c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "du", UID: uid(n + 2000)}}
	return c
}
