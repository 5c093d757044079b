package cri

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
)

// A verbose status contains the environment and the annotations of a container or a pod, so its
// author chooses the size. gRPC holds the whole reply before the client decodes it. So the
// client limits the replies that it receives at the same time: 8 of 1 MiB, and one of 32 MiB.
const (
	smallStatus   = 1 << 20
	smallStatuses = 8
	// largeStatus is enough for 6 MiB, the maximum of the kernel for environment and arguments
	// (3/4 of _STK_LIM, fs/exec.c of Linux 6.12), in the configuration and in the OCI spec.
	largeStatus = 32 << 20
)

// slots limits the calls in progress to its capacity.
type slots chan struct{}

// withLimit returns the reply of a call for a status. If the reply exceeds the limit for small
// replies, gRPC discards it after the first 64 KiB, and the call is repeated alone.
func withLimit[R any](ctx context.Context, c *Client, call func(limit grpc.CallOption) (R, error)) (R, error) {
	r, err := within(ctx, c.small, smallStatus, call)
	if isTooLarge(err) {
		r, err = within(ctx, c.large, largeStatus, call)
	}
	if isTooLarge(err) {
		return r, fmt.Errorf("reply is too large: %w; reduce environment, arguments or annotations, or raise the runtime's limit up to %d bytes "+
			"(containerd: max_send_message_size, CRI-O: grpc_max_send_msg_size)", fromGRPC(err), largeStatus)
	}
	return r, fromGRPC(err)
}

// within makes a call with a limit for the reply, in bytes, when a slot is free.
func within[R any](ctx context.Context, s slots, limit int, call func(limit grpc.CallOption) (R, error)) (r R, err error) {
	select {
	case s <- struct{}{}:
		defer func() { <-s }()
		return call(grpc.MaxCallRecvMsgSize(limit))
	case <-ctx.Done():
		return r, ctx.Err()
	}
}
