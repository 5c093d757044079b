package claims

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/cpupoold/cpupoold/internal/dra"
	"github.com/cpupoold/cpupoold/internal/plugin/manifest"
)

// Objects holds the objects of files that an allocation needs. The zero value is empty.
type Objects struct {
	classes   map[string]*resourcev1.DeviceClass
	claims    map[string]*resourcev1.ResourceClaim         // by namespace/name
	templates map[string]*resourcev1.ResourceClaimTemplate // by namespace/name
	slices    map[string]*resourcev1.ResourceSlice
}

// Reads reports whether Add takes an object.
func Reads(o *manifest.Object) bool {
	return strings.HasPrefix(o.APIVersion, resourcev1.GroupName+"/") &&
		slices.Contains([]string{"DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"}, o.Kind)
}

// Add adds an object that Reads reports. A claim or template without a namespace gets the given one.
func (o *Objects) Add(object *manifest.Object, namespace string) error {
	if want := resourcev1.SchemeGroupVersion.String(); object.APIVersion != want {
		return fmt.Errorf("apiVersion %q: want %s; save it with kubectl of Kubernetes 1.34 or later", object.APIVersion, want)
	}
	if object.Name == "" {
		return fmt.Errorf("metadata.name is missing; write the name of the %s", object.Kind)
	}
	switch object.Kind {
	case "DeviceClass":
		return put(&o.classes, object.Name, object, func(*resourcev1.DeviceClass) {})
	case "ResourceSlice":
		return put(&o.slices, object.Name, object, func(*resourcev1.ResourceSlice) {})
	}
	namespace = cmp.Or(object.Namespace, namespace)
	key := namespace + "/" + object.Name
	if object.Kind == "ResourceClaimTemplate" {
		return put(&o.templates, key, object, func(t *resourcev1.ResourceClaimTemplate) { setDefaults(&t.Spec.Spec) })
	}
	return put(&o.claims, key, object, func(c *resourcev1.ResourceClaim) {
		c.Namespace = namespace
		setDefaults(&c.Spec)
	})
}

// put decodes an object into a map, and completes it.
func put[T any](all *map[string]*T, key string, object *manifest.Object, complete func(*T)) error {
	if (*all)[key] != nil {
		return fmt.Errorf("%s %s occurs twice; remove one of the two objects", object.Kind, key)
	}
	value := new(T)
	if err := object.Decode(value); err != nil {
		return err
	}
	if *all == nil {
		*all = make(map[string]*T)
	}
	complete(value)
	(*all)[key] = value
	return nil
}

// setDefaults sets the defaults of the API server (Kubernetes 1.37, pkg/apis/resource/v1,
// SetDefaults_ExactDeviceRequest and SetDefaults_DeviceSubRequest).
func setDefaults(spec *resourcev1.ResourceClaimSpec) {
	set := func(mode *resourcev1.DeviceAllocationMode, count *int64) {
		*mode = cmp.Or(*mode, resourcev1.DeviceAllocationModeExactCount)
		if *mode == resourcev1.DeviceAllocationModeExactCount && *count == 0 {
			*count = 1
		}
	}
	for i := range spec.Devices.Requests {
		r := &spec.Devices.Requests[i]
		if r.Exactly != nil {
			set(&r.Exactly.AllocationMode, &r.Exactly.Count)
		}
		for j := range r.FirstAvailable {
			set(&r.FirstAvailable[j].AllocationMode, &r.FirstAvailable[j].Count)
		}
	}
}

// IsEmpty reports whether the files have no object that Reads reports.
func (o *Objects) IsEmpty() bool {
	return len(o.classes)+len(o.claims)+len(o.templates)+len(o.slices) == 0
}

// Nodes returns the names of the nodes of ResourceSlices, sorted.
func (o *Objects) Nodes() []string {
	var names []string
	for _, s := range o.slices {
		if s.Spec.NodeName != nil && *s.Spec.NodeName != "" {
			names = append(names, *s.Spec.NodeName)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// foreign returns the ResourceSlices of other drivers, by name.
func (o *Objects) foreign() []*resourcev1.ResourceSlice {
	var all []*resourcev1.ResourceSlice
	for _, name := range slices.Sorted(maps.Keys(o.slices)) {
		if s := o.slices[name]; s.Spec.Driver != dra.Driver {
			all = append(all, s)
		}
	}
	return all
}
