package hostenv

import (
	"errors"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// IsGone says that a write came too late: what it was for has ended.
func IsGone(err error) bool {
	return errors.Is(err, cgroup.ErrGone) || errors.Is(err, cri.ErrNotFound) || errors.Is(err, cri.ErrNotRunning)
}
