package claims

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"

	"github.com/cpupoold/cpupoold/internal/dra"
)

// Scheduler allocates devices of one node. It is for one goroutine.
type Scheduler struct {
	files    *Objects
	node     *corev1.Node
	classes  map[string]*resourcev1.DeviceClass
	claims   map[string]*resourcev1.ResourceClaim // of the files, and of pods, by namespace/name
	made     map[string]bool                      // the claims that have a template
	users    map[string][]user                    // pods of each claim
	slices   []*resourcev1.ResourceSlice          // the first is the node's
	compiled *cel.Cache
	shares   int // number of shares of devices so far
}

type user struct{ uid, name string }

// Use is an entry of spec.resourceClaims of a pod, with its claim.
type Use struct {
	Entry string
	Claim *resourcev1.ResourceClaim
}

// Refused is the reason why a pod does not start.
type Refused struct {
	// Code is Unschedulable, or NotPrepared if the driver refuses the claim on the node.
	Code, Text string
}

// Error implements error.
func (r *Refused) Error() string { return r.Text }

// Codes of Refused.
const (
	Unschedulable = "Unschedulable"
	NotPrepared   = "ClaimNotPrepared"
)

func unschedulable(format string, args ...any) *Refused {
	return &Refused{Unschedulable, fmt.Sprintf(format, args...)}
}

// searchTimeout is the time after which the scheduler ends its search on a node (Kubernetes 1.37,
// DynamicResourcesArgs.FilterTimeout).
const searchTimeout = 10 * time.Second

// features returns the features of the allocator that are on by default in Kubernetes 1.37.
func features() structured.Features {
	return structured.Features{
		AdminAccess: true, ConsumableCapacity: true, DeviceBindingAndStatus: true, DeviceTaints: true,
		FractionalCapacityRange: true, PartitionableDevices: true, PrioritizedList: true,
	}
}

// New returns a scheduler for a node with the devices of the driver. If the files have no DeviceClass of the
// driver, it adds the built-in class.
func New(o *Objects, node *corev1.Node) *Scheduler {
	s := &Scheduler{
		files: o, node: node, classes: map[string]*resourcev1.DeviceClass{dra.Class: dra.DeviceClass()}, claims: make(map[string]*resourcev1.ResourceClaim), made: make(map[string]bool), users: make(map[string][]user),
		slices: append([]*resourcev1.ResourceSlice{dra.Slice(node.Name, nil)}, o.foreign()...), compiled: cel.NewCache(64, cel.Features{EnableConsumableCapacity: true}),
	}
	maps.Copy(s.classes, o.classes)
	for key, claim := range o.claims {
		s.claims[key] = claim.DeepCopy()
		s.claims[key].Status.ReservedFor = nil // the pods of the simulation decide
	}
	return s
}

// Publish replaces the devices of the driver. Allocations stay.
func (s *Scheduler) Publish(devices []resourcev1.Device) {
	s.slices[0] = dra.Slice(s.node.Name, devices)
}

// Schedule allocates all claims of a pod, or no claim. Missing are the entries of a saved pod without a claim in
// the files. The pod runs, so it is not refused. An error is a *Refused.
func (s *Scheduler) Schedule(pod *corev1.Pod, uid string, saved bool) (uses []Use, missing []string, err error) {
	for _, entry := range pod.Spec.ResourceClaims {
		claim, err := s.claim(pod, &entry)
		switch {
		case err != nil && saved:
			missing = append(missing, entry.Name)
		case err != nil:
			s.Release(uses, uid)
			return nil, nil, err
		case claim != nil:
			uses = append(uses, Use{entry.Name, claim})
		}
	}
	err = s.check(uses)
	if err == nil {
		err = s.allocate(uses)
	}
	if err != nil {
		s.Release(uses, uid)
		return nil, nil, err
	}
	for _, u := range uses {
		if k, pod := key(u.Claim), (user{uid, pod.Namespace + "/" + pod.Name}); !slices.Contains(s.users[k], pod) {
			s.users[k] = append(s.users[k], pod)
		}
	}
	return uses, missing, nil
}

// claim returns the claim of an entry, or nil if the entry needs none. It makes the claim of a template.
func (s *Scheduler) claim(pod *corev1.Pod, entry *corev1.PodResourceClaim) (*resourcev1.ResourceClaim, error) {
	in := pod.Namespace + "/"
	switch {
	case entry.ResourceClaimName != nil:
		name := in + *entry.ResourceClaimName
		if s.claims[name] == nil {
			return nil, s.files.absent("ResourceClaim", name)
		}
		return s.claims[name], nil
	case entry.ResourceClaimTemplateName == nil:
		return nil, unschedulable("entry %s of spec.resourceClaims names no claim; set resourceClaimName or resourceClaimTemplateName", entry.Name)
	}
	for _, status := range pod.Status.ResourceClaimStatuses {
		switch {
		case status.Name != entry.Name:
		case status.ResourceClaimName == nil:
			return nil, nil
		case s.claims[in+*status.ResourceClaimName] != nil:
			return s.claims[in+*status.ResourceClaimName], nil
		}
	}
	template := s.files.templates[in+*entry.ResourceClaimTemplateName]
	if template == nil {
		return nil, s.files.absent("ResourceClaimTemplate", in+*entry.ResourceClaimTemplateName)
	}
	claim := &resourcev1.ResourceClaim{ObjectMeta: template.Spec.ObjectMeta, Spec: template.Spec.Spec}
	claim.Namespace, claim.Name = pod.Namespace, pod.Name+"-"+entry.Name // the API server adds random letters
	if s.claims[key(claim)] != nil {
		return nil, unschedulable("claim %s of template %s has the name of another claim; rename one", key(claim), template.Name)
	}
	s.claims[key(claim)], s.made[key(claim)] = claim, true
	return claim, nil
}

func key(c *resourcev1.ResourceClaim) string { return c.Namespace + "/" + c.Name }

// check checks the claims that are allocated already: they have devices of this node, and no other pod
// uses their CPUs. The driver does not prepare a claim with CPUs for a second pod.
func (s *Scheduler) check(uses []Use) error {
	for _, u := range uses {
		a := u.Claim.Status.Allocation
		if a == nil {
			continue
		}
		if a.NodeSelector != nil {
			selector, err := nodeaffinity.NewNodeSelector(a.NodeSelector)
			if err != nil {
				return unschedulable("claim %s: status.allocation.nodeSelector: %v", key(u.Claim), err)
			}
			if !selector.Match(s.node) {
				return unschedulable("claim %s has devices of another node", key(u.Claim))
			}
		}
		parts, err := dra.Parts(u.Claim, s.node.Name)
		if err != nil {
			return &Refused{NotPrepared, fmt.Sprintf("claim %s: %v", key(u.Claim), err)}
		}
		if others := s.users[key(u.Claim)]; len(parts) > 0 && len(others) > 0 {
			return &Refused{NotPrepared, fmt.Sprintf("claim %s has CPUs, and pod %s uses it; a claim with CPUs is for one pod: use a ResourceClaimTemplate",
				key(u.Claim), others[0].name)}
		}
	}
	return nil
}

// allocate allocates the claims that are not allocated, all or none.
func (s *Scheduler) allocate(uses []Use) error {
	var open []*resourcev1.ResourceClaim
	for _, u := range uses {
		if u.Claim.Status.Allocation != nil || slices.Contains(open, u.Claim) {
			continue
		}
		if err := s.checkClasses(u.Claim); err != nil {
			return err
		}
		open = append(open, u.Claim)
	}
	if len(open) == 0 {
		return nil
	}
	results, err := s.search(open, s.state(), s.slices)
	if err != nil {
		return err
	}
	if results == nil {
		return s.why(open)
	}
	for i, c := range open {
		for j := range results[i].Devices.Results {
			if r := &results[i].Devices.Results[j]; r.ShareID != nil { // random; the same input gives the same output
				s.shares++
				r.ShareID = new(types.UID(fmt.Sprintf("share-%d", s.shares)))
			}
		}
		c.Status.Allocation = &results[i]
	}
	return nil
}

func (s *Scheduler) checkClasses(c *resourcev1.ResourceClaim) error {
	for _, r := range c.Spec.Devices.Requests {
		for _, class := range classesOf(&r) {
			if s.classes[class] == nil {
				return unschedulable("claim %s, request %s: %s", key(c), r.Name, s.files.absent("DeviceClass", class).Text)
			}
		}
	}
	return nil
}

func classesOf(r *resourcev1.DeviceRequest) []string {
	var all []string
	if r.Exactly != nil {
		all = append(all, r.Exactly.DeviceClassName)
	}
	for i := range r.FirstAvailable {
		all = append(all, r.FirstAvailable[i].DeviceClassName)
	}
	return all
}

// search returns an allocation for each claim, or nil if no allocation is possible. An error is a *Refused.
// The allocator relies on the validation of the API server, and panics on some objects without it.
func (s *Scheduler) search(claims []*resourcev1.ResourceClaim, state structured.AllocatedState, from []*resourcev1.ResourceSlice) (results []resourcev1.AllocationResult, err error) {
	defer func() {
		if p := recover(); p != nil {
			results, err = nil, unschedulable("claims %s: a claim, a DeviceClass or a ResourceSlice is not valid (%v); find the mistake with kubectl apply --dry-run=server", names(claims), p)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), searchTimeout)
	defer cancel()
	allocator, err := structured.NewAllocator(ctx, features(), state, lister(s.classes), from, s.compiled)
	if err != nil {
		return nil, unschedulable("%v", err)
	}
	results, err = allocator.Allocate(ctx, s.node, claims)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, unschedulable("the search for devices took more than %v; ask for fewer devices, or use narrower selectors", searchTimeout)
	case err != nil: // an error of CEL has several lines
		return nil, unschedulable("%s", strings.Join(strings.Fields(err.Error()), " "))
	case len(results) != len(claims):
		return nil, nil
	}
	return results, nil
}

// state returns the devices, shares and capacities of all allocated claims. Devices of admin access
// are not counted.
func (s *Scheduler) state() structured.AllocatedState {
	state := noState()
	for _, c := range s.claims {
		if c.Status.Allocation == nil {
			continue
		}
		for _, r := range c.Status.Allocation.Devices.Results {
			id := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
			switch {
			case ptr.Deref(r.AdminAccess, false):
			case r.ShareID == nil:
				state.AllocatedDevices.Insert(id)
			default:
				state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, r.ShareID))
				state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, r.ConsumedCapacity))
			}
		}
	}
	return state
}

// noState is the state of a node without claims.
func noState() structured.AllocatedState {
	return structured.AllocatedState{
		AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity: structured.NewConsumedCapacityCollection(),
	}
}

// Release ends the use of claims by a pod. A claim that a pod has used loses its devices with its last
// pod. A claim of a template is deleted.
func (s *Scheduler) Release(uses []Use, uid string) {
	for _, u := range uses {
		k := key(u.Claim)
		if i := slices.IndexFunc(s.users[k], func(p user) bool { return p.uid == uid }); i >= 0 {
			if s.users[k] = slices.Delete(s.users[k], i, i+1); len(s.users[k]) == 0 {
				u.Claim.Status.Allocation = nil
			}
		}
		if s.made[k] {
			delete(s.claims, k)
			delete(s.made, k)
		}
	}
}

// lister lists the classes for the allocator.
type lister map[string]*resourcev1.DeviceClass

// List implements structured.DeviceClassLister.
func (l lister) List() ([]*resourcev1.DeviceClass, error) {
	var all []*resourcev1.DeviceClass
	for _, name := range slices.Sorted(maps.Keys(l)) {
		all = append(all, l[name])
	}
	return all, nil
}

// Get implements structured.DeviceClassLister.
func (l lister) Get(name string) (*resourcev1.DeviceClass, error) {
	if class := l[name]; class != nil {
		return class, nil
	}
	return nil, fmt.Errorf("no DeviceClass %s", name)
}
