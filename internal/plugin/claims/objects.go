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
	// unreadable are the objects that Add has refused, by kind and name.
	unreadable map[string]bool
}

// Reads reports whether Add takes an object.
func Reads(o *manifest.Object) bool {
	return strings.HasPrefix(o.APIVersion, resourcev1.GroupName+"/") &&
		slices.Contains([]string{"DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"}, o.Kind)
}

// TypeOf returns an empty object of a kind that Reads reports.
func TypeOf(kind string) any {
	switch kind {
	case "DeviceClass":
		return &resourcev1.DeviceClass{}
	case "ResourceSlice":
		return &resourcev1.ResourceSlice{}
	case "ResourceClaimTemplate":
		return &resourcev1.ResourceClaimTemplate{}
	}
	return &resourcev1.ResourceClaim{}
}

// Add adds an object that Reads reports. A claim or template without a namespace gets the given one.
// With an error, a pod that needs the object does not run.
func (o *Objects) Add(object *manifest.Object, namespace string) error {
	key := object.Name
	if strings.HasPrefix(object.Kind, "ResourceClaim") {
		namespace = cmp.Or(object.Namespace, namespace)
		key = namespace + "/" + object.Name
	}
	err := o.add(object, namespace, key)
	if err != nil {
		if o.unreadable == nil {
			o.unreadable = make(map[string]bool)
		}
		o.unreadable[object.Kind+" "+key] = true
	}
	return err
}

func (o *Objects) add(object *manifest.Object, namespace, key string) error {
	if want := resourcev1.SchemeGroupVersion.String(); object.APIVersion != want {
		return fmt.Errorf("apiVersion %q: want %s; save it with kubectl of Kubernetes 1.34 or later", object.APIVersion, want)
	}
	if object.Name == "" {
		return fmt.Errorf("metadata.name is missing; write the name of the %s", object.Kind)
	}
	switch object.Kind {
	case "DeviceClass":
		return put(&o.classes, key, object, func(*resourcev1.DeviceClass) error { return nil })
	case "ResourceSlice":
		return put(&o.slices, key, object, func(*resourcev1.ResourceSlice) error { return nil })
	case "ResourceClaimTemplate":
		return put(&o.templates, key, object, func(t *resourcev1.ResourceClaimTemplate) error { return complete(&t.Spec.Spec) })
	}
	return put(&o.claims, key, object, func(c *resourcev1.ResourceClaim) error {
		c.Namespace = namespace
		return complete(&c.Spec)
	})
}

// put decodes an object into a map, and completes it.
func put[T any](all *map[string]*T, key string, object *manifest.Object, complete func(*T) error) error {
	if (*all)[key] != nil {
		return fmt.Errorf("%s %s occurs twice; remove one of the two objects", object.Kind, key)
	}
	value := new(T)
	if err := object.Decode(value); err != nil {
		return err
	}
	if err := complete(value); err != nil {
		return err
	}
	if *all == nil {
		*all = make(map[string]*T)
	}
	(*all)[key] = value
	return nil
}

// complete sets the defaults of the API server (Kubernetes 1.37, pkg/apis/resource/v1,
// SetDefaults_ExactDeviceRequest and SetDefaults_DeviceSubRequest). It refuses requests on which the
// allocator would panic, because the API server refuses them.
func complete(spec *resourcev1.ResourceClaimSpec) error {
	set := func(request string, mode *resourcev1.DeviceAllocationMode, count *int64) error {
		*mode = cmp.Or(*mode, resourcev1.DeviceAllocationModeExactCount)
		if *mode == resourcev1.DeviceAllocationModeExactCount && *count == 0 {
			*count = 1
		}
		if *count < 0 {
			return fmt.Errorf("request %q has count %d; write 1 or more", request, *count)
		}
		return nil
	}
	for i := range spec.Devices.Requests {
		r := &spec.Devices.Requests[i]
		if (r.Exactly != nil) == (len(r.FirstAvailable) > 0) {
			return fmt.Errorf("request %q needs exactly or firstAvailable; write one of the two", r.Name)
		}
		if r.Exactly != nil {
			if err := set(r.Name, &r.Exactly.AllocationMode, &r.Exactly.Count); err != nil {
				return err
			}
		}
		for j := range r.FirstAvailable {
			a := &r.FirstAvailable[j]
			if err := set(r.Name+"/"+a.Name, &a.AllocationMode, &a.Count); err != nil {
				return err
			}
		}
	}
	return nil
}

// absent returns the reason why the objects lack an object that a pod needs.
func (o *Objects) absent(kind, key string) *Refused {
	if o.unreadable[kind+" "+key] {
		return unschedulable("%s %s is not valid; correct it", kind, key)
	}
	return unschedulable("the files have no %s %s; add it with -f", kind, key)
}

// IsEmpty reports whether the files have no object that Reads reports, not even an unreadable one.
func (o *Objects) IsEmpty() bool {
	return len(o.classes)+len(o.claims)+len(o.templates)+len(o.slices)+len(o.unreadable) == 0
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
