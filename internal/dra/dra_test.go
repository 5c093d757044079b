package dra_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/cpupoold/cpupoold/internal/dra"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/testing/testnode/hardware"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// devices returns the devices of a list of CPUs for claims.
func devices(t *testing.T, machine, list string, options allocate.Options, more ...resourcev1.QualifiedName) []resourcev1.Device {
	t.Helper()
	m, err := hardware.Parse(machine)
	if err != nil {
		t.Fatal(err)
	}
	cpus, err := cpuset.Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	p := pools.Pools{Claims: pools.ClaimPool{CPUs: cpus.Intersection(m.Topology().Online)}, Options: options}
	return dra.Devices(inspect.ClaimDevices(&p, allocate.New(m.Topology()), cpuset.Set{}), more...)
}

// line returns a device as a line: name, capacity with default, min and step, and attributes.
func line(d *resourcev1.Device) string {
	c := d.Capacity[dra.Capacity]
	r := c.RequestPolicy.ValidRange
	step := "none"
	if r.Step != nil {
		step = r.Step.String()
	}
	text := fmt.Sprintf("%s %s default %s min %s step %s", d.Name, c.Value.String(), c.RequestPolicy.Default, r.Min, step)
	for _, name := range slices.Sorted(maps.Keys(d.Attributes)) {
		a := d.Attributes[name]
		short := strings.TrimPrefix(string(name), dra.Driver+"/")
		if a.IntValue != nil {
			text += fmt.Sprintf(" %s=%d", short, *a.IntValue)
		} else {
			text += fmt.Sprintf(" %s=%q", short, *a.StringValue)
		}
	}
	return text
}

// TestDevices checks devices, capacities and attributes.
func TestDevices(t *testing.T) {
	whole := allocate.Options{FullPCPUsOnly: true}
	for _, c := range []struct {
		machine, list string
		options       allocate.Options
		want          []string
	}{
		{"packages=2 cores=4 threads=2", "2-7,10-15", allocate.Options{}, []string{
			`numa0 4 default 1 min 1 step 1 cpus="2-3,10-11" l3Caches=1 socket=0 threadsPerCore=2 resource.kubernetes.io/numaNode=0`,
			`numa1 8 default 1 min 1 step 1 cpus="4-7,12-15" l3Caches=1 socket=4 threadsPerCore=2 resource.kubernetes.io/numaNode=1`,
		}},
		{"packages=1 nodes=2 l3s=2 cores=2 threads=2", "2-7,10-15", whole, []string{
			`numa0 4 default 2 min 2 step 2 cpus="2-3,10-11" l3Caches=1 socket=0 threadsPerCore=2 resource.kubernetes.io/numaNode=0`,
			`numa1 8 default 2 min 2 step 2 cpus="4-7,12-15" l3Caches=2 socket=0 threadsPerCore=2 resource.kubernetes.io/numaNode=1`,
		}},
		// A step is impossible with one core, and with one CPU.
		{"cores=4 threads=2", "3,7", whole, []string{`numa0 2 default 2 min 2 step none cpus="3,7" l3Caches=1 socket=0 threadsPerCore=2 resource.kubernetes.io/numaNode=0`}},
		{"cores=4", "3", allocate.Options{}, []string{`numa0 1 default 1 min 1 step none cpus="3" l3Caches=1 socket=0 threadsPerCore=1 resource.kubernetes.io/numaNode=0`}},
		// An offline thread takes its core away, and a device without a whole core does not exist.
		{"cores=4 threads=2 offline=6", "2-3,6-7", whole, []string{`numa0 2 default 2 min 2 step none cpus="3,7" l3Caches=1 socket=0 threadsPerCore=2 resource.kubernetes.io/numaNode=0`}},
		{"cores=4 threads=2 offline=7", "3,7", allocate.Options{}, []string{`numa0 1 default 1 min 1 step none cpus="3" l3Caches=1 socket=0 threadsPerCore=1 resource.kubernetes.io/numaNode=0`}},
		{"cores=4 threads=2 offline=3,7", "3,7", whole, nil},
		{"cores=2 threads=2 small=4", "1,3-7", whole, []string{
			`numa0-performance 2 default 2 min 2 step none coreType="performance" cpus="1,3" l3Caches=1 socket=0 threadsPerCore=2 resource.kubernetes.io/numaNode=0`,
			`numa0-efficiency 4 default 1 min 1 step 1 coreType="efficiency" cpus="4-7" l3Caches=1 socket=0 threadsPerCore=1 resource.kubernetes.io/numaNode=0`,
		}},
		// A node of two packages has no socket.
		{"packages=2 cores=2 numa=off", "1,3", allocate.Options{}, []string{`numa0 2 default 1 min 1 step 1 cpus="1,3" l3Caches=2 threadsPerCore=1 resource.kubernetes.io/numaNode=0`}},
		{"cores=4", "", allocate.Options{}, nil},
	} {
		var got []string
		for _, d := range devices(t, c.machine, c.list, c.options) {
			got = append(got, line(&d))
			if !ptr.Deref(d.AllowMultipleAllocations, false) {
				t.Errorf("%s: device %s allows one allocation; want many", c.machine, d.Name)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s with %s: -want +got:\n%s", c.machine, c.list, diff)
		}
	}
}

// TestDevicesAreValid checks the rules of the API for the capacity and the attributes of each number
// of CPUs (Kubernetes 1.37, validateRequestPolicyRange).
func TestDevicesAreValid(t *testing.T) {
	for cpus := 1; cpus <= 64; cpus++ {
		list := make([]string, cpus) // each second core
		for i := range list {
			list[i] = fmt.Sprintf("%d,%d", 2*i, 2*i+128)
		}
		for _, options := range []allocate.Options{{}, {FullPCPUsOnly: true}} {
			for _, d := range devices(t, "cores=128 threads=2", strings.Join(list, ","), options) {
				c := d.Capacity[dra.Capacity]
				r := c.RequestPolicy.ValidRange
				if r.Min.Sign() <= 0 || r.Min.Cmp(c.Value) > 0 || c.RequestPolicy.Default.Cmp(*r.Min) != 0 {
					t.Errorf("%s: min or default is out of range", line(&d))
				}
				if r.Step != nil {
					least := r.Min.DeepCopy()
					if least.Add(*r.Step); least.Cmp(c.Value) > 0 || c.Value.Value()%r.Step.Value() != 0 {
						t.Errorf("%s: the step is impossible", line(&d))
					}
				}
				for name, a := range d.Attributes {
					if len(ptr.Deref(a.StringValue, "")) > resourcev1.DeviceAttributeMaxValueLength {
						t.Errorf("%s: attribute %s is too long", line(&d), name)
					}
				}
			}
		}
	}
}

// TestSlice checks the slice of a node, and an attribute on request.
func TestSlice(t *testing.T) {
	all := devices(t, "packages=2 cores=2", "1,3", allocate.Options{}, "dra.net/numaNode")
	s := dra.Slice("worker-1", all)
	if s.Spec.Driver != "cpu.cpupoold.io" || *s.Spec.NodeName != "worker-1" || s.Spec.Pool != (resourcev1.ResourcePool{Name: "worker-1", Generation: 1, ResourceSliceCount: 1}) || len(s.Spec.Devices) != 2 {
		t.Errorf("slice is %+v", s.Spec)
	}
	if n := all[1].Attributes["dra.net/numaNode"].IntValue; n == nil || *n != 1 {
		t.Errorf("dra.net/numaNode is %v; want 1", n)
	}
	if got := dra.DeviceClass().Spec.Selectors[0].CEL.Expression; got != `device.driver == "cpu.cpupoold.io"` {
		t.Errorf("the class selects %s", got)
	}
}

// TestParts checks which results of an allocation are CPUs.
func TestParts(t *testing.T) {
	result := func(driver, pool, amount string, admin bool) resourcev1.DeviceRequestAllocationResult {
		r := resourcev1.DeviceRequestAllocationResult{Request: "r", Driver: driver, Pool: pool, Device: "numa0", ShareID: ptr.To(types.UID("s"))}
		if amount != "" {
			r.ConsumedCapacity = map[resourcev1.QualifiedName]resource.Quantity{dra.Capacity: resource.MustParse(amount)}
		}
		if admin {
			r.AdminAccess = &admin
		}
		return r
	}
	four := []pools.ClaimPart{{Request: "r", Device: "numa0", ShareID: "s", CPUs: 4}}
	for name, c := range map[string]struct {
		results []resourcev1.DeviceRequestAllocationResult
		want    []pools.ClaimPart
		err     string
	}{
		"CPUs":           {[]resourcev1.DeviceRequestAllocationResult{result(dra.Driver, "n", "4", false)}, four, ""},
		"NIC and CPUs":   {[]resourcev1.DeviceRequestAllocationResult{result("nic", "x", "", false), result(dra.Driver, "n", "4", false)}, four, ""},
		"NIC":            {[]resourcev1.DeviceRequestAllocationResult{result("nic", "x", "", false)}, nil, ""},
		"admin access":   {[]resourcev1.DeviceRequestAllocationResult{result(dra.Driver, "n", "4", true)}, nil, ""},
		"another node":   {[]resourcev1.DeviceRequestAllocationResult{result(dra.Driver, "m", "4", false)}, nil, "pool m; this node is pool n"},
		"half a CPU":     {[]resourcev1.DeviceRequestAllocationResult{result(dra.Driver, "n", "1500m", false)}, nil, "has 1500m of capacity"},
		"no CPU":         {[]resourcev1.DeviceRequestAllocationResult{result(dra.Driver, "n", "0", false)}, nil, "has 0 of capacity"},
		"negative":       {[]resourcev1.DeviceRequestAllocationResult{result(dra.Driver, "n", "-1", false)}, nil, "has -1 of capacity"},
		"too many":       {[]resourcev1.DeviceRequestAllocationResult{result(dra.Driver, "n", "9223372036854775808", false)}, nil, "has 9223372036854775808 of capacity"},
		"no amount":      {[]resourcev1.DeviceRequestAllocationResult{result(dra.Driver, "n", "", false)}, nil, "has 0 of capacity"},
		"not allocated ": {nil, nil, "is not allocated"},
	} {
		claim := &resourcev1.ResourceClaim{}
		if c.results != nil {
			claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: c.results}}
		}
		got, err := dra.Parts(claim, "n")
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: error %v; want %q", name, err, c.err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}
