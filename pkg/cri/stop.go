package cri

import (
	"context"
	"errors"
	"fmt"
	"time"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Stop ends a running container: with its stop signal, and after timeout (in whole
// seconds, rounded up; 0 for at once) by force. It waits for the end, so ctx has to
// allow for more than timeout. The kubelet finds the container exited, as if it had
// ended without Stop, and restarts it according to the pod's restartPolicy.
//
// If the container has exited already or no longer exists, Stop returns nil: CRI requires
// the call to be idempotent. For a container that was created and not started, containerd
// returns no error and does nothing.
func (c *Client) Stop(ctx context.Context, id string, timeout time.Duration) error {
	if timeout < 0 {
		return fmt.Errorf("stop container %s: timeout %v is negative", id, timeout)
	}
	_, err := c.rpc.StopContainer(ctx, &runtime.StopContainerRequest{
		ContainerId: id,
		Timeout:     int64((timeout + time.Second - 1) / time.Second),
	})
	if err == nil {
		return nil
	}
	if err = fromGRPC(err); errors.Is(err, ErrNotFound) {
		return nil
	}
	return fmt.Errorf("stop container %s: %w", id, err)
}
