package kernelstate

import (
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// ExternalWrite is a cgroup that somebody else has written to.
type ExternalWrite struct {
	Target cgroup.Target
	Before cgroup.Current
	After  cgroup.State
}
