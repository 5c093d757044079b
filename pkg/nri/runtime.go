package nri

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cri"
)

// ErrOtherRuntime means that a runtime without the pods listens on the socket. Two
// runtimes on a machine have the same default path, and the last one to start makes the socket.
var ErrOtherRuntime = errors.New("the runtime at this socket is not the one with the pods")

// checkTimeout bounds the question of CheckRuntime, in which the runtime creates no container.
const checkTimeout = time.Second

// lister lists the pods of a container runtime.
type lister interface {
	List(ctx context.Context) ([]cri.Pod, []cri.Container, error)
}

// CheckRuntime returns ErrOtherRuntime if NRI has other pods than the runtime r. Without
// an answer of r, or without pods on both sides, CheckRuntime returns nil.
func CheckRuntime(ctx context.Context, r lister, pods []cri.Pod) error {
	if r == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	own, _, err := r.List(ctx)
	if err != nil {
		return nil //nolint:nilerr // a busy runtime is no other runtime
	}
	return compare(pods, own)
}

// compare returns ErrOtherRuntime if the lists have no pod in common, and one of them has a pod
// that runs. The pods of NRI all run.
func compare(pods, own []cri.Pod) error {
	ids := make(map[string]bool, len(pods))
	for _, p := range pods {
		ids[p.ID] = true
	}
	ready := 0
	for _, p := range own {
		if ids[p.ID] {
			return nil
		}
		if p.Ready {
			ready++
		}
	}
	if ready+len(pods) == 0 {
		return nil
	}
	return fmt.Errorf("%w: its %d pods and the %d running pods of the container runtime share no id", ErrOtherRuntime, len(pods), ready)
}
