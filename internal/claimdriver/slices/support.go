package slices

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/cpupoold/cpupoold/internal/dra"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// feature is the feature gate of the field nodeAllocatableResources, and the name by which a kubelet
// declares it in Node.status.declaredFeatures.
const feature = "DRANodeAllocatableResources"

// Reasons why the API server does not take the mapping.
const (
	reasonKubelet = "the kubelet does not declare the feature " + feature + " in Node.status.declaredFeatures"
	reasonServer  = "the API server drops the field nodeAllocatableResources: its feature gate " + feature + " is off, or its version has no such field"
)

// support are the fields of devices that the API server stores.
type support struct {
	sharing bool // allowMultipleAllocations and requestPolicy (DRAConsumableCapacity)
	taints  bool // DRADeviceTaints
	mapping bool // nodeAllocatableResources
	// reason is the cause if mapping is false. It is settled if it is one of the reasons above, and not a
	// refusal that may pass.
	reason  string
	settled bool
}

// observe compares devices with the devices that the API server has stored. Fields that the devices do not
// use keep their values of s.
func (s support) observe(sent, stored []resourcev1.Device) support {
	for i := range min(len(sent), len(stored)) {
		a, b := &sent[i], &stored[i]
		if a.AllowMultipleAllocations != nil {
			s.sharing = b.AllowMultipleAllocations != nil && b.Capacity[dra.Capacity].RequestPolicy != nil
		}
		if len(a.Taints) > 0 {
			s.taints = len(b.Taints) > 0
		}
		if len(a.NodeAllocatableResources) > 0 {
			s.mapping, s.reason, s.settled = len(b.NodeAllocatableResources) > 0, "", true
			if !s.mapping {
				s.reason = reasonServer
			}
		}
	}
	return s
}

// probe asks the API server by a dry run which fields it stores. An error means that the answer is not
// known. The kubelet's part of mapping is a check of the API server (admission plugin
// NodeDeclaredFeatureValidator, Kubernetes 1.37).
func probe(ctx context.Context, client kubernetes.Interface, node string) (support, error) {
	devices := dra.Devices([]inspect.ClaimDevice{{Name: "numa0", CPUs: cpuset.Of(0, 1), Step: 1, ThreadsPerCore: 1, L3s: 1}})
	devices[0].Taints = []resourcev1.DeviceTaint{away()}
	devices[0].NodeAllocatableResources = mapping()
	s, refused := dryRun(ctx, client, node, devices)
	if refused == nil || !isRefusal(refused) {
		return s, refused
	}
	devices[0].NodeAllocatableResources = nil
	s, err := dryRun(ctx, client, node, devices)
	if err != nil {
		return s, errors.Join(refused, err)
	}
	s.reason = "the API server refuses the field nodeAllocatableResources: " + refused.Error()
	if strings.Contains(refused.Error(), "does not support "+feature) {
		s.reason, s.settled = reasonKubelet, true
	}
	return s, nil
}

func dryRun(ctx context.Context, client kubernetes.Interface, node string, devices []resourcev1.Device) (support, error) {
	slice := dra.Slice(node, devices)
	slice.GenerateName, slice.Name = slice.Name+"-", ""
	stored, err := client.ResourceV1().ResourceSlices().Create(ctx, slice, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return support{}, fmt.Errorf("create ResourceSlice (dry run): %w", err)
	}
	return support{}.observe(devices, stored.Spec.Devices), nil
}

// isRefusal reports whether the API server has understood the request, and refuses its content.
func isRefusal(err error) bool {
	var status apierrors.APIStatus
	refusals := []int32{http.StatusBadRequest, http.StatusForbidden, http.StatusUnprocessableEntity}
	return errors.As(err, &status) && slices.Contains(refusals, status.Status().Code)
}

// away returns the taint of devices while the daemon does not answer.
func away() resourcev1.DeviceTaint {
	return resourcev1.DeviceTaint{Key: dra.Driver + "/away", Effect: resourcev1.DeviceTaintEffectNoSchedule}
}

// mapping returns the field by which the CPUs of a claim count as cpu of the Node.
func mapping() map[corev1.ResourceName]resourcev1.NodeAllocatableResource {
	return map[corev1.ResourceName]resourcev1.NodeAllocatableResource{corev1.ResourceCPU: {
		Mapping: &resourcev1.NodeAllocatableMapping{CapacityKey: ptr.To(dra.Capacity), CapacityMultiplier: resource.NewQuantity(1, resource.DecimalSI)},
	}}
}

// reservation is the part of a Node that the accounting depends on. The zero value is a Node that has not
// been read.
type reservation struct {
	read     bool
	reserved resource.Quantity // cpu of the capacity that is not allocatable
	declares bool              // the kubelet declares the feature of the mapping
	version  string            // of the kubelet
}

func reservationOf(node *corev1.Node) reservation {
	r := reservation{read: true, version: node.Status.NodeInfo.KubeletVersion, declares: slices.Contains(node.Status.DeclaredFeatures, feature)}
	r.reserved = node.Status.Capacity[corev1.ResourceCPU].DeepCopy()
	r.reserved.Sub(node.Status.Allocatable[corev1.ResourceCPU])
	return r
}

// lack returns the problem if the kubelet reserves less cpu than the CPUs for claims, and otherwise
// nothing. The reservation also contains CPUs of management pools, so the kubelet may reserve too little
// without a problem here; cpupoold check knows these pools.
func (r reservation) lack(cpus int64) string {
	if !r.read || r.reserved.CmpInt64(cpus) >= 0 {
		return ""
	}
	return fmt.Sprintf("the kubelet reserves %s of the Node's cpu, and %d CPUs are for claims, so the scheduler gives them to other pods too; reserve them in the kubelet's configuration as kubectl cpupool render --format kubelet prints it", r.reserved.String(), cpus)
}
