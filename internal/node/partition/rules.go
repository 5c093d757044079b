package partition

import (
	"strings"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// LeakTime is the time after which online CPUs that are in no cgroup count as lost. The
// kernel releases the CPUs of a removed partition after a moment, if at all.
const LeakTime = 2 * time.Second

// FirstPause and LastPause bound the growing pause before the next attempt to make a
// partition that the kernel has refused, or that waits for CPUs.
const (
	FirstPause = 100 * time.Millisecond
	LastPause  = time.Minute
)

// MaxSteps returns the maximum number of steps to reach the desired state of n partitions.
func MaxSteps(n int) int { return 32 + 8*n }

// HoldsPods reports whether a cgroup contains the kubelet's pods or QoS classes.
func HoldsPods(p cgroup.Path) bool {
	for component := range strings.SplitSeq(string(p), "/") {
		if name := strings.TrimSuffix(component, ".slice"); name == "kubepods" || strings.HasSuffix(name, "-kubepods") {
			return true
		}
	}
	return false
}

// IsParking reports whether a cgroup belongs to the partition of parked CPUs.
func IsParking(p cgroup.Path) bool { return p == cgroup.Parking || p == cgroup.ParkingTop }

// SameWish reports whether two wishes for a cgroup have the same type and CPUs.
func SameWish(a, b cgroup.PartitionWish) bool { return a.Type == b.Type && a.CPUs.Equal(b.CPUs) }
