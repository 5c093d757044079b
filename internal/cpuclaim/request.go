package cpuclaim

import (
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
)

// Names in the API.
const (
	// Driver is the name of the driver, and the domain of its attributes and of its capacity.
	Driver = "cpu.cpupoold.io"
	// DeviceClass is the name of the class that selects all devices of the driver.
	DeviceClass = "exclusive-cpus.cpupoold.io"
	// Capacity is the number of CPUs of a device.
	Capacity resourcev1.QualifiedName = Driver + "/cpus"
)

// Use states what a claim, or one of its requests, is for.
type Use int

// Values of Use.
const (
	Other   Use = iota // devices of other drivers, or administration: no CPUs
	CPUs               // CPUs of the driver
	Unclear            // CPUs or other devices: the scheduler decides
	Unknown            // the claim, its template or its class is not known
)

// Request is a request of a claim, without the fields that do not matter here.
type Request struct {
	Name         string
	alternatives []alternative // one for a request with exactly
}

// alternative is a device that a request can get.
type alternative struct {
	class string // name of the class; empty if the request decides alone
	by    driver // required by the request
}

// Class is a DeviceClass, without the fields that do not matter here.
type Class struct {
	by driver
	// Resource is the extended resource that containers can request instead of a claim; empty for none.
	Resource string
}

// Requests returns the requests of a claim or template.
func Requests(spec *resourcev1.ResourceClaimSpec) []Request {
	all := make([]Request, 0, len(spec.Devices.Requests))
	for i := range spec.Devices.Requests {
		r := &spec.Devices.Requests[i]
		short := Request{Name: strings.Clone(r.Name)}
		if e := r.Exactly; e != nil {
			short.alternatives = append(short.alternatives, alternativeOf(e.DeviceClassName, e.Selectors, e.Capacity, e.AdminAccess))
		}
		for j := range r.FirstAvailable {
			a := &r.FirstAvailable[j]
			short.alternatives = append(short.alternatives, alternativeOf(a.DeviceClassName, a.Selectors, a.Capacity, nil))
		}
		all = append(all, short)
	}
	return all
}

func alternativeOf(class string, selectors []resourcev1.DeviceSelector, capacity *resourcev1.CapacityRequirements, admin *bool) alternative {
	_, named := ptr.Deref(capacity, resourcev1.CapacityRequirements{}).Requests[Capacity] // devices of other drivers do not have it
	a := alternative{by: driverOf(selectors)}
	switch {
	case ptr.Deref(admin, false): // the scheduler counts no capacity for it, and it gets no CPUs
		a.by = foreign
	case class == DeviceClass || named:
		a.by = own
	case a.by != own && a.by != foreign:
		a.class = strings.Clone(class)
	}
	return a
}

// ClassOf returns the facts about a class.
func ClassOf(c *resourcev1.DeviceClass) Class {
	facts := Class{by: driverOf(c.Spec.Selectors), Resource: strings.Clone(ptr.Deref(c.Spec.ExtendedResourceName, ""))}
	switch {
	case c.Name == DeviceClass:
		facts.by = own
	case len(c.Spec.Selectors) == 0: // it selects all devices
		facts.by = unclear
	}
	return facts
}

// UseOfResource returns the use of an extended resource that a container requests. Kubernetes gives each class a
// resource with its name. classes returns the classes that have another resource.
func UseOfResource(name string, class func(string) (Class, bool), classes func(resource string) []Class) Use {
	if of, is := strings.CutPrefix(name, resourcev1.ResourceDeviceClassPrefix); is {
		return alternativeOf(of, nil, nil, nil).use(class)
	}
	if !strings.Contains(name, "/") { // cpu, memory and others of Kubernetes
		return Other
	}
	all := Other
	for i, c := range classes(name) {
		if i > 0 && c.by.use() != all {
			return Unclear
		}
		all = c.by.use()
	}
	return all
}

// UseOf returns the use of a claim, or of its request with a name. class returns the facts about a class, and
// false if it is not known.
func UseOf(requests []Request, name string, class func(string) (Class, bool)) Use {
	all := Other
	for i := range requests {
		r := &requests[i]
		if name != "" && name != r.Name {
			continue
		}
		use := r.use(class)
		if use == CPUs {
			return CPUs // the container gets them, and maybe other devices
		}
		all = max(all, use)
	}
	return all
}

// use returns the use of a request. The scheduler chooses one of its alternatives.
func (r *Request) use(class func(string) (Class, bool)) Use {
	all := Other
	for i, a := range r.alternatives {
		use := a.use(class)
		if i > 0 && use != all {
			use = max(use, all, Unclear)
		}
		all = use
	}
	return all
}

func (a alternative) use(class func(string) (Class, bool)) Use {
	if a.class == "" {
		return a.by.use()
	}
	c, known := class(a.class)
	switch {
	case !known:
		return Unknown
	case c.by == silent:
		return a.by.use()
	case c.by == unclear:
		return Unclear
	}
	return c.by.use()
}
