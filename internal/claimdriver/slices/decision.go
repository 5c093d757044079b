package slices

import (
	"fmt"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/cpupoold/cpupoold/internal/dra"
	"github.com/cpupoold/cpupoold/internal/inspect"
)

// accountingAttribute is the attribute of devices that shows the accounting, reserved or mapped.
const accountingAttribute resourcev1.QualifiedName = dra.Driver + "/accounting"

// kind is a problem with the devices of the node, and the label of its metric.
type kind string

const (
	problemAway       kind = "away"
	problemNotReady   kind = "not_ready"
	problemSharing    kind = "sharing"
	problemMapping    kind = "mapping"
	problemUnreserved kind = "unreserved"
)

// situation holds all facts that decide about the devices of a node.
type situation struct {
	accounting Accounting // as configured
	names      []resourcev1.QualifiedName
	claims     *inspect.Claims // last answer of the daemon; nil before the first
	away       bool            // the last answer is older than gracePeriod
	notReady   bool            // the daemon reports this for longer than gracePeriod
	support    support
	kubelet    reservation
}

// decision is the result: the devices, how they are counted, and the text of each problem.
type decision struct {
	devices  []resourcev1.Device
	counted  Accounting // Reserved or Mapped
	problems map[kind]string
}

// decide returns the devices that the node offers. A pod must not be placed where its claim cannot get
// its CPUs, so an unknown state means fewer devices. Existing claims
// keep their CPUs in each case.
func (s *situation) decide() decision {
	d := decision{counted: Reserved, problems: map[kind]string{}}
	if s.accounting != Reserved && s.support.mapping {
		d.counted = Mapped
	}
	if s.claims != nil {
		d.devices = dra.Devices(s.claims.Devices, s.names...)
	}
	if d.counted == Reserved && len(d.devices) > 0 {
		if text := s.kubelet.lack(cpus(d.devices)); text != "" {
			d.problems[problemUnreserved] = text
		}
	}
	for i := range d.devices {
		d.devices[i].Attributes[accountingAttribute] = resourcev1.DeviceAttribute{StringValue: new(string(d.counted))}
		if d.counted == Mapped {
			d.devices[i].NodeAllocatableResources = mapping()
		}
		if s.away {
			d.devices[i].Taints = []resourcev1.DeviceTaint{away()}
		}
	}
	if s.away {
		d.problems[problemAway] = fmt.Sprintf("cpupoold has not answered for %s; no new claims are allocated on the node. Look at the log of cpupoold", gracePeriod)
		if !s.support.taints {
			d.devices = nil // the API server would drop the taint
		}
	}
	if s.notReady {
		d.problems[problemNotReady], d.devices = s.claims.Problem, nil
	}
	if !s.support.sharing {
		d.problems[problemSharing], d.devices = "the API server drops capacity policies, so that one claim would get all CPUs; switch the feature gate DRAConsumableCapacity on in all components", nil
	}
	if s.accounting == Mapped && !s.support.mapping {
		d.problems[problemMapping], d.devices = "accounting "+string(Mapped)+" is not supported: "+s.support.reason+". Use accounting "+string(Auto)+", and reserve the CPUs of the list in the kubelet", nil
	}
	return d
}

func cpus(devices []resourcev1.Device) (n int64) {
	for i := range devices {
		c := devices[i].Capacity[dra.Capacity]
		n += c.Value.Value()
	}
	return n
}

// resources returns the only pool of a node. A pool without devices has an empty slice, which shows that the driver runs.
func resources(node string, devices []resourcev1.Device) resourceslice.DriverResources {
	var all []resourceslice.Slice
	for part := range slices.Chunk(devices, resourcev1.ResourceSliceMaxDevicesWithAdvancedFeatures) {
		all = append(all, resourceslice.Slice{Devices: part})
	}
	if all == nil {
		all = []resourceslice.Slice{{}}
	}
	return resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{node: {Slices: all}}}
}

// Accounting is the way in which the cluster counts the CPUs of claims as cpu of the Node.
type Accounting string

// Values of Accounting.
const (
	// Auto is Mapped where the API server and the kubelet support it, and otherwise Reserved.
	Auto Accounting = "auto"
	// Reserved leaves the cpu of the Node alone: the kubelet must reserve the CPUs of the list.
	Reserved Accounting = "reserved"
	// Mapped lets the scheduler and the kubelet add the CPUs of a claim to the cpu of its pod
	// (feature gate DRANodeAllocatableResources). Without their support, no devices are published.
	Mapped Accounting = "mapped"
)

// UnmarshalText accepts the values of Accounting. It makes the type usable as a flag.
func (a *Accounting) UnmarshalText(text []byte) error {
	switch v := Accounting(text); v {
	case Auto, Reserved, Mapped:
		*a = v
		return nil
	default:
		return fmt.Errorf("unknown accounting %q; use %s, %s or %s", text, Auto, Reserved, Mapped)
	}
}

// MarshalText returns the value as UnmarshalText accepts it.
func (a Accounting) MarshalText() ([]byte, error) { return []byte(a), nil }
