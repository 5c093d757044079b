package dra

import (
	"strconv"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cpupoold/cpupoold/internal/cpuclaim"
	"github.com/cpupoold/cpupoold/internal/inspect"
)

// Names in the API.
const (
	// Driver is the name of the driver, and the domain of its attributes and of its capacity.
	Driver = cpuclaim.Driver
	// Class is the name of the DeviceClass that selects all devices of the driver.
	Class = cpuclaim.DeviceClass
	// Capacity is the number of CPUs of a device.
	Capacity = cpuclaim.Capacity
	// NUMANode is the standard attribute by which claims select devices of several drivers on one
	// NUMA node (k8s.io/dynamic-resource-allocation/deviceattribute, 0.37).
	NUMANode resourcev1.QualifiedName = "resource.kubernetes.io/numaNode"
)

// DeviceClass returns the class of all devices of the driver.
func DeviceClass() *resourcev1.DeviceClass {
	return &resourcev1.DeviceClass{
		TypeMeta:   metav1.TypeMeta{APIVersion: resourcev1.SchemeGroupVersion.String(), Kind: "DeviceClass"},
		ObjectMeta: metav1.ObjectMeta{Name: Class},
		Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{{
			CEL: &resourcev1.CELDeviceSelector{Expression: "device.driver == " + strconv.Quote(Driver)},
		}}},
	}
}

// Slice returns the only ResourceSlice of a node. Its pool has the name of the node.
func Slice(node string, devices []resourcev1.Device) *resourcev1.ResourceSlice {
	return &resourcev1.ResourceSlice{
		TypeMeta:   metav1.TypeMeta{APIVersion: resourcev1.SchemeGroupVersion.String(), Kind: "ResourceSlice"},
		ObjectMeta: metav1.ObjectMeta{Name: node + "-" + Driver},
		Spec: resourcev1.ResourceSliceSpec{
			Driver: Driver, NodeName: &node, Devices: devices,
			Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
		},
	}
}

// Devices returns the devices of the API for the devices of the daemon, in their order. It leaves out
// devices without CPUs, because the scheduler would allocate them to claims. more are other attributes
// that hold the NUMA node, such as dra.net/numaNode.
func Devices(of []inspect.ClaimDevice, more ...resourcev1.QualifiedName) []resourcev1.Device {
	var all []resourcev1.Device
	for i := range of {
		d := &of[i]
		if d.CPUs.IsEmpty() {
			continue
		}
		device := resourcev1.Device{
			Name: d.Name, AllowMultipleAllocations: new(true), Attributes: attributes(d),
			Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{Capacity: capacity(d.CPUs.Len(), d.Step)},
		}
		for _, name := range append([]resourcev1.QualifiedName{NUMANode}, more...) {
			device.Attributes[name] = number(d.Node)
		}
		all = append(all, device)
	}
	return all
}

// capacity returns the capacity of a device, with the policy by which the scheduler rounds requests. A
// request is rounded up to whole CPUs, or to whole cores. Without a request, a claim gets the smallest
// amount. The API refuses a step with which no second amount is possible.
func capacity(cpus, step int) resourcev1.DeviceCapacity {
	of := func(n int) *resource.Quantity { return resource.NewQuantity(int64(n), resource.DecimalSI) }
	policy := &resourcev1.CapacityRequestPolicy{Default: of(step), ValidRange: &resourcev1.CapacityRequestPolicyRange{Min: of(step), Step: of(step)}}
	if 2*step > cpus {
		policy.Default, policy.ValidRange = of(cpus), &resourcev1.CapacityRequestPolicyRange{Min: of(cpus)}
	}
	return resourcev1.DeviceCapacity{Value: *of(cpus), RequestPolicy: policy}
}

func number(n int) resourcev1.DeviceAttribute {
	return resourcev1.DeviceAttribute{IntValue: new(int64(n))}
}

func text(s string) resourcev1.DeviceAttribute { return resourcev1.DeviceAttribute{StringValue: &s} }

// attributes returns the attributes of a device in the driver's domain. A device on several sockets has
// no attribute socket. A list of CPUs that is longer than the API takes is absent.
func attributes(d *inspect.ClaimDevice) map[resourcev1.QualifiedName]resourcev1.DeviceAttribute {
	all := map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
		Driver + "/threadsPerCore": number(d.ThreadsPerCore),
		Driver + "/l3Caches":       number(d.L3s),
	}
	if len(d.Packages) == 1 && d.Packages[0] >= 0 {
		all[Driver+"/socket"] = number(d.Packages[0])
	}
	if d.CoreType != "" {
		all[Driver+"/coreType"] = text(d.CoreType)
	}
	if list := d.CPUs.String(); len(list) <= resourcev1.DeviceAttributeMaxValueLength {
		all[Driver+"/cpus"] = text(list)
	}
	return all
}
