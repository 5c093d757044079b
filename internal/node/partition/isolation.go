package partition

import (
	"time"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// # Partitions
//
// Where the kernel can do it, each container with CPUs of its own becomes a remote
// partition: then the kernel keeps everybody else off its CPUs, host processes
// included, whether or not a daemon runs. Which writes lead there is pkg/cgroup's to
// say (PlanPartitions). A pass looks at partitions twice: before its other writes, to
// give back what is not to be had any more, and after them, when an owner is on its
// CPUs and nobody else is, to take them. So a partition is always of a container that
// is pinned already, and a partition that is lost leaves it pinned.

// LeakTime is how long CPUs may be in nobody's hands before they are held for lost:
// the kernel gives back those of a removed cgroup after a moment, if it does.
const LeakTime = 2 * time.Second

// The bounds of the growing pause after which a partition that the kernel has refused,
// or that waits for CPUs, is tried again.
const (
	FirstPartitionPause = 100 * time.Millisecond
	LastPartitionPause  = time.Minute
)

func SameWish(a, b cgroup.PartitionWish) bool { return a.Type == b.Type && a.CPUs.Equal(b.CPUs) }
