package overview

import (
	"cmp"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/cpupoold/cpupoold/internal/dra"
)

// Accounting of the CPUs of claims: as `cpu` of the pod, or by a reservation of the kubelet.
const (
	Mapped   = "mapped"
	Reserved = "reserved"
)

// away is the taint of devices while cpupool-dra gets no answer of the daemon.
const away = dra.Driver + "/away"

// Claims are the CPUs of a node for ResourceClaims. Amounts are numbers of CPUs.
type Claims struct {
	// Accounting is Mapped or Reserved. It is Unknown if no device is published.
	Accounting string `json:"accounting"`
	// Devices are the parts of the node, by name. Allocated has the ResourceClaims with CPUs of them.
	Devices   []Device `json:"devices"`
	Allocated []Claim  `json:"allocated"`
}

// Device is a part of a node of which claims get CPUs.
type Device struct {
	Name string `json:"name"`
	// Capacity is the number of online CPUs. Allocated is the number that the scheduler has allocated to
	// claims. Prepared is the part of it that has CPUs on the node.
	Capacity  int64 `json:"capacity"`
	Allocated int64 `json:"allocated"`
	Prepared  int64 `json:"prepared"`
	// Away is true while cpupool-dra gets no answer of the daemon. The scheduler allocates no more CPUs then.
	Away bool `json:"away,omitempty"`
}

// Claim is a ResourceClaim with CPUs of a node.
type Claim struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	CPUs      int64  `json:"cpus"`
	Prepared  bool   `json:"prepared"`
	// Pods are the names of the pods that use the claim.
	Pods []string `json:"pods"`
	// Message is the reason why the claim is prepared and not ready.
	Message string `json:"message,omitempty"`
}

// Sum returns the sums of all devices.
func (c *Claims) Sum() (sum Device) {
	for _, d := range c.Devices {
		sum.Capacity, sum.Allocated, sum.Prepared = sum.Capacity+d.Capacity, sum.Allocated+d.Allocated, sum.Prepared+d.Prepared
		sum.Away = sum.Away || d.Away
	}
	return sum
}

// Free returns the number of CPUs that the scheduler can allocate. A device can have more allocated CPUs than its
// capacity, if CPUs are offline or the device is no longer published.
func (c *Claims) Free() (free int64) {
	for _, d := range c.Devices {
		free += max(0, d.Capacity-d.Allocated)
	}
	return free
}

// AddClaims adds the claims to nodes. It ignores other drivers, and claims without an allocation.
func AddClaims(nodes []Node, published []resourcev1.ResourceSlice, claims []resourcev1.ResourceClaim) {
	byName := make(map[string]*Node, len(nodes))
	for i := range nodes {
		byName[nodes[i].Name] = &nodes[i]
	}
	newest := make(map[string]int64) // generation of the pool of each node
	published = slices.DeleteFunc(slices.Clone(published), func(s resourcev1.ResourceSlice) bool { return s.Spec.Driver != dra.Driver })
	for _, s := range published {
		newest[s.Spec.Pool.Name] = max(newest[s.Spec.Pool.Name], s.Spec.Pool.Generation)
	}
	for _, s := range published {
		if n := byName[ptr.Deref(s.Spec.NodeName, "")]; n != nil && s.Spec.Pool.Generation == newest[s.Spec.Pool.Name] {
			n.publish(s.Spec.Devices)
		}
	}
	for i := range claims {
		addClaim(byName, &claims[i])
	}
	for i := range nodes {
		if c := nodes[i].Claims; c != nil {
			slices.SortFunc(c.Devices, func(a, b Device) int { return strings.Compare(a.Name, b.Name) })
			slices.SortFunc(c.Allocated, func(a, b Claim) int {
				return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
			})
		}
	}
}

func (at *Node) publish(devices []resourcev1.Device) {
	c := at.claims()
	for _, d := range devices {
		capacity := d.Capacity[dra.Capacity].Value
		c.Devices = append(c.Devices, Device{Name: d.Name, Capacity: capacity.Value(), Away: slices.ContainsFunc(d.Taints, func(t resourcev1.DeviceTaint) bool { return t.Key == away })})
		if c.Accounting = Reserved; len(d.NodeAllocatableResources) > 0 {
			c.Accounting = Mapped
		}
	}
}

func (at *Node) claims() *Claims {
	if at.Claims == nil {
		at.Claims = &Claims{Accounting: Unknown, Devices: []Device{}, Allocated: []Claim{}}
	}
	return at.Claims
}

// device returns a device of a node. A claim can have CPUs of a device that is no longer published.
func (c *Claims) device(name string) *Device {
	i := slices.IndexFunc(c.Devices, func(d Device) bool { return d.Name == name })
	if i < 0 {
		i, c.Devices = len(c.Devices), append(c.Devices, Device{Name: name})
	}
	return &c.Devices[i]
}

// addClaim adds the CPUs of a claim to its node. All its CPUs are on one node.
func addClaim(nodes map[string]*Node, c *resourcev1.ResourceClaim) {
	if c.Status.Allocation == nil {
		return
	}
	var to *Claims
	one := Claim{Namespace: c.Namespace, Name: c.Name, Prepared: true, Pods: []string{}}
	for _, r := range c.Status.Allocation.Devices.Results {
		n := nodes[r.Pool] // the pool has the name of the node
		if r.Driver != dra.Driver || ptr.Deref(r.AdminAccess, false) || n == nil {
			continue
		}
		to = n.claims()
		amount := r.ConsumedCapacity[dra.Capacity]
		d, cpus := to.device(r.Device), amount.Value()
		d.Allocated, one.CPUs = d.Allocated+cpus, one.CPUs+cpus
		isPrepared, message := preparation(c, &r)
		if isPrepared {
			d.Prepared += cpus
		}
		one.Prepared, one.Message = one.Prepared && isPrepared, cmp.Or(one.Message, message)
	}
	if to == nil {
		return
	}
	for _, consumer := range c.Status.ReservedFor {
		if consumer.Resource == "pods" {
			one.Pods = append(one.Pods, consumer.Name)
		}
	}
	to.Allocated = append(to.Allocated, one)
}

// preparation reports whether cpupool-dra has prepared a result of an allocation, and why it is not ready.
func preparation(c *resourcev1.ResourceClaim, r *resourcev1.DeviceRequestAllocationResult) (isPrepared bool, message string) {
	for _, s := range c.Status.Devices {
		if s.Driver != r.Driver || s.Pool != r.Pool || s.Device != r.Device || ptr.Deref(s.ShareID, "") != string(ptr.Deref(r.ShareID, types.UID(""))) {
			continue
		}
		for _, condition := range s.Conditions {
			if condition.Type == "Ready" && condition.Status == "False" {
				message = condition.Message
			}
		}
		return true, message
	}
	return false, ""
}
