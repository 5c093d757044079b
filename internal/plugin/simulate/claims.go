package simulate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/cpupoold/cpupoold/internal/dra"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/plugin/claims"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Allocation is a device of a ResourceClaim that a pod uses.
type Allocation struct {
	// Claim is the name of the claim: namespace/name.
	Claim string `json:"claim"`
	Pod   string `json:"pod"` // namespace/name
	// Containers are the names of the containers that have the device.
	Containers []string `json:"containers"`
	// Request is the name of the request, Driver and Device are the allocated device.
	Request string `json:"request"`
	Driver  string `json:"driver"`
	Device  string `json:"device"`
	// Count is the number of CPUs that the scheduler has counted, and CPUs are the CPUs of the plan.
	// Both are empty for devices of other drivers.
	Count int        `json:"count,omitempty"`
	CPUs  cpuset.Set `json:"cpus,omitzero"`
	// AdminAccess is true if the device is for administration, without CPUs.
	AdminAccess bool `json:"adminAccess,omitempty"`
}

// pending is a pod that is not on the node, because its claims have no devices.
type pending struct {
	pod *Pod
	why claims.Refused
}

// allocation is the state of ResourceClaims.
type allocation struct {
	// name is the name of the node, and of its pool of devices.
	name string
	// scheduler is nil without objects of resource.k8s.io.
	scheduler *claims.Scheduler
	// pending are the pods that wait for devices, in their order.
	pending []pending
	// ignored is the number of claims of pods that have no effect.
	ignored int
}

// offer gives the node's scheduler the objects of the files. Without any, claims have no effect.
func (n *Node) offer(o *Objects) {
	if o.Claims.IsEmpty() {
		return
	}
	n.name = cmp.Or(o.node, "node")
	n.scheduler = claims.New(&o.Claims, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name, Labels: o.member(o.node).Labels}})
	n.publish()
}

// publish gives the scheduler the devices of the present CPUs.
func (n *Node) publish() {
	if n.scheduler == nil {
		return
	}
	var more []resourcev1.QualifiedName
	for _, name := range n.NUMAAttributes {
		more = append(more, resourcev1.QualifiedName(name))
	}
	n.scheduler.Publish(dra.Devices(inspect.ClaimDevices(&n.input.Pools, n.input.Machine, cpuset.Set{}), more...))
}

// schedule allocates the claims of a pod. It reports false, and keeps the pod, if there are no devices.
func (n *Node) schedule(p *Pod) ([]claims.Use, bool) {
	if n.scheduler == nil || len(p.Spec.Spec.ResourceClaims) == 0 {
		n.ignored += len(p.Spec.Spec.ResourceClaims)
		return nil, true
	}
	uses, missing, err := n.scheduler.Schedule(p.Spec, p.UID, p.saved)
	if refused, is := errors.AsType[*claims.Refused](err); is {
		n.pending = append(n.pending, pending{p, *refused})
		return nil, false
	}
	n.ignored += len(missing)
	seen := make(map[string]bool)
	for _, u := range uses {
		parts, _ := dra.Parts(u.Claim, n.name) // Schedule has checked them
		c := pools.Claim{UID: uidOf(u.Claim), Namespace: u.Claim.Namespace, Name: u.Claim.Name, PodUID: p.UID, Parts: parts}
		if len(parts) > 0 && !seen[c.UID] {
			n.input.Claims, seen[c.UID] = append(n.input.Claims, c), true
		}
	}
	return uses, true
}

// uidOf returns the UID of a claim, or its name if it is in no cluster yet.
func uidOf(c *resourcev1.ResourceClaim) string {
	return cmp.Or(string(c.UID), c.Namespace+"/"+c.Name)
}

// useClaims records that a container of a pod uses claims with CPUs, as the runtime reports.
func (n *Node) useClaims(r *running, container string) {
	for _, u := range r.uses {
		i := slices.IndexFunc(n.input.Claims, func(c pools.Claim) bool { return c.UID == uidOf(u.Claim) && c.PodUID == r.pod.UID })
		if i < 0 {
			continue
		}
		c := &n.input.Claims[i]
		has := slices.ContainsFunc(c.Parts, func(p pools.ClaimPart) bool { return refers(r.spec, container, u.Entry, p.Request) })
		if at, found := slices.BinarySearch(c.Containers, container); has && !found {
			c.Containers = slices.Insert(slices.Clip(c.Containers), at, container)
		}
	}
}

// refers reports whether a container refers to a request of an entry of spec.resourceClaims. The name
// of an alternative is request/alternative.
func refers(pod *corev1.Pod, container, entry, request string) bool {
	base, _, _ := strings.Cut(request, "/")
	resources := resourcesIn(pod, container)
	return resources != nil && slices.ContainsFunc(resources.Claims, func(c corev1.ResourceClaim) bool {
		return c.Name == entry && (c.Request == "" || c.Request == base)
	})
}

// release ends the claims of a pod that has ended.
func (n *Node) release(r *running) {
	if n.scheduler == nil {
		return
	}
	n.input.Claims = slices.DeleteFunc(slices.Clone(n.input.Claims), func(c pools.Claim) bool { return c.PodUID == r.pod.UID })
	n.scheduler.Release(r.uses, r.pod.UID)
}

// retry starts the pods that have waited for devices, in their order.
func (n *Node) retry() {
	waiting := n.pending
	n.pending = nil
	for _, w := range waiting {
		n.begin(w.pod)
	}
}

// explainPending returns the explanation of a pod that waits for devices, or nil.
func (n *Node) explainPending(name string) *inspect.Explanation {
	for _, w := range n.pending {
		p, of := w.pod.Spec, name
		if i := strings.LastIndexByte(name, '/'); i > 0 && resourcesIn(p, name[i+1:]) != nil {
			of = name[:i] // without the container
		}
		if name != w.pod.Name() && of != p.Name && of != w.pod.Name() {
			continue
		}
		s := inspect.Subject{
			Container: inspect.Container{Namespace: p.Namespace, Pod: p.Name, Code: w.why.Code, Reason: w.why.Text},
			Sentence:  fmt.Sprintf("%s does not run on this node, because %s.", p.Name, w.why.Text), Rules: []inspect.Rule{}, Problems: []inspect.Problem{},
		}
		return &inspect.Explanation{Version: inspect.Version, Asked: name, Subjects: []inspect.Subject{s}}
	}
	return nil
}

// allocations returns the devices of all claims, in the order of the pods.
func (n *Node) allocations() []Allocation {
	var all []Allocation
	for _, r := range n.pods {
		for i, u := range r.uses {
			if slices.ContainsFunc(r.uses[:i], func(o claims.Use) bool { return o.Claim == u.Claim }) {
				continue // another entry of the pod has the same claim
			}
			all = append(all, n.devicesOf(r, u.Claim)...)
		}
	}
	return all
}

// devicesOf returns the devices of a claim of a pod.
func (n *Node) devicesOf(r *running, c *resourcev1.ResourceClaim) (all []Allocation) {
	var plan pools.ClaimPlan
	if i := slices.IndexFunc(n.plan.Claims, func(p pools.ClaimPlan) bool { return p.UID == uidOf(c) }); i >= 0 {
		plan = n.plan.Claims[i]
	}
	for _, result := range c.Status.Allocation.Devices.Results {
		d := Allocation{Claim: c.Namespace + "/" + c.Name, Pod: r.name(), Containers: []string{}, Request: result.Request,
			Driver: result.Driver, Device: result.Device, AdminAccess: result.AdminAccess != nil && *result.AdminAccess}
		for _, container := range r.asked.Containers {
			if slices.ContainsFunc(r.uses, func(u claims.Use) bool {
				return u.Claim == c && refers(r.spec, container.Name, u.Entry, result.Request)
			}) {
				d.Containers = append(d.Containers, container.Name)
			}
		}
		for _, part := range plan.Parts {
			if d.Driver == dra.Driver && !d.AdminAccess && part.Request == d.Request && part.Device == d.Device && part.ShareID == string(ptr.Deref(result.ShareID, "")) {
				d.Count, d.CPUs = part.CPUs, part.On
			}
		}
		all = append(all, d)
	}
	return all
}
