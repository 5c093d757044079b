package kernelstate

import (
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// foreignWrite is a cgroup that somebody else has written to.
type foreignWrite struct {
	Target cgroup.Target
	Before cgroup.Current
	After  cgroup.State
}
