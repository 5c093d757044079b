package systemd

import (
	"errors"
	"fmt"
	"math"
	"testing"

	godbus "github.com/godbus/dbus/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

func TestPropertyEncode(t *testing.T) {
	for _, c := range []struct {
		property Property
		want     any // nil: an error
	}{
		{Property{cgroup.UnitCPUs, "0,3,9"}, []byte{0x09, 0x02}},
		{Property{cgroup.UnitCPUs, "8-15"}, []byte{0x00, 0xff}},
		{Property{cgroup.UnitCPUs, "14-99"}, []byte{0x00, 0xc0}}, // masked to the possible ones
		{Property{cgroup.UnitCPUs, "16-99"}, nil},
		{Property{cgroup.UnitCPUs, "x"}, nil},
		{Property{cgroup.UnitCPUs, ""}, []byte{}},
		{Property{cgroup.UnitMems, "0,3,17"}, []byte{0x09, 0x00, 0x02}}, // nodes are no CPUs
		{Property{cgroup.UnitMems, ""}, []byte{}},
		{Property{cgroup.UnitMems, "x"}, nil},
		{Property{cgroup.UnitWeight, "59"}, uint64(59)},
		{Property{cgroup.UnitWeight, ""}, uint64(math.MaxUint64)},
		{Property{cgroup.UnitWeight, "0"}, nil}, // systemd would make it idle
		{Property{cgroup.UnitWeight, "10001"}, nil},
		{Property{cgroup.UnitWeight, "-1"}, nil},
		{Property{cgroup.UnitQuota, "infinity"}, uint64(math.MaxUint64)},
		{Property{cgroup.UnitQuota, "500000"}, uint64(500000)},
		{Property{cgroup.UnitQuota, "0"}, nil},
		{Property{cgroup.UnitQuota, "max"}, nil},
		{Property{"MemoryMax", "1"}, nil},
	} {
		got, err := c.property.encode(cpuset.Range(0, 15))
		if (err != nil) != (c.want == nil) {
			t.Errorf("encode(%v): %v", c.property, err)
		}
		if err == nil && !cmp.Equal(got.Value(), c.want) {
			t.Errorf("encode(%v) = %v; want %v", c.property, got.Value(), c.want)
		}
	}
}

func FuzzDecodeCPUs(f *testing.F) {
	f.Add([]byte{0x09, 0x02})
	f.Add([]byte{})
	f.Add([]byte{0, 0, 0})
	f.Add(make([]byte, cpuset.MaxCPUs/8+1))
	f.Fuzz(func(t *testing.T, mask []byte) {
		cpus, err := decodeCPUs(mask)
		if err != nil || cpus.IsEmpty() {
			return
		}
		wire, err := Property{cgroup.UnitCPUs, cpus.String()}.wire(cpuset.Set{})
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeCPUs(wire.([]byte))
		if err != nil || !again.Equal(cpus) {
			t.Errorf("decodeCPUs(%x) = %s, which is encoded as %x and decoded as %s, %v", mask, cpus, wire, again, err)
		}
	})
}

// TestUnknownProperty checks that only the error about a missing property counts as one.
func TestUnknownProperty(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"none":    {},
		"unknown": {fmt.Errorf("get property: %w", godbus.Error{Name: "org.freedesktop.DBus.Error.UnknownProperty"}), true},
		"denied":  {godbus.Error{Name: "org.freedesktop.DBus.Error.AccessDenied"}, false},
		"other":   {errors.New("connection closed"), false},
	} {
		if got := isUnknownProperty(c.err); got != c.want {
			t.Errorf("%s = %t; want %t", name, got, c.want)
		}
	}
}
