package cri

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/cpupoold/cpupoold/pkg/internal/bounded"
)

// List returns all pods and containers. It makes two calls whatever their number; a list
// that is too large for one message takes two more. Fields that a list does not have are zero;
// see Detailed. Containers can name pods that are not in the list and the other way round,
// because the runtime creates and removes them between the calls.
func (c *Client) List(ctx context.Context) ([]Pod, []Container, error) {
	ps, err := c.listPods(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("list pods: %w", err)
	}
	cs, err := c.listContainers(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("list containers: %w", err)
	}
	pods := make([]Pod, len(ps))
	for i, p := range ps {
		pods[i] = c.podOf(p)
	}
	containers := make([]Container, len(cs))
	for i, ct := range cs {
		containers[i] = containerOf(ct)
		containers[i].PodID = ct.GetPodSandboxId()
	}
	return pods, containers, nil
}

// listed is a pod (S: its state) or a container, in a list or in a status.
type listed[M, S any] interface {
	GetId() string
	GetMetadata() M
	GetState() S
	GetCreatedAt() int64
}

// podOf returns the part of a pod that lists have.
func (c *Client) podOf(p interface {
	listed[*runtime.PodSandboxMetadata, runtime.PodSandboxState]
	GetAnnotations() map[string]string
	GetRuntimeHandler() string
}) Pod {
	m := p.GetMetadata()
	return Pod{
		ID: p.GetId(), UID: m.GetUid(), Namespace: m.GetNamespace(), Name: m.GetName(), Attempt: m.GetAttempt(),
		Ready:          p.GetState() == runtime.PodSandboxState_SANDBOX_READY,
		CreatedAt:      time.Unix(0, p.GetCreatedAt()),
		Annotations:    bounded.Annotations(p.GetAnnotations(), c.keep),
		RuntimeHandler: p.GetRuntimeHandler(),
	}
}

// containerOf returns the part of a container that lists and statuses have.
func containerOf(ct listed[*runtime.ContainerMetadata, runtime.ContainerState]) Container {
	return Container{
		ID: ct.GetId(), Name: ct.GetMetadata().GetName(), Attempt: ct.GetMetadata().GetAttempt(),
		State: stateOf(ct.GetState()), CreatedAt: time.Unix(0, ct.GetCreatedAt()),
	}
}

func (c *Client) listPods(ctx context.Context) ([]*runtime.PodSandbox, error) {
	r, err := c.rpc.ListPodSandbox(ctx, &runtime.ListPodSandboxRequest{})
	if !isTooLarge(err) {
		return r.GetItems(), fromGRPC(err)
	}
	return inParts(ctx, err, func(ctx context.Context) (grpc.ServerStreamingClient[runtime.StreamPodSandboxesResponse], error) {
		return c.rpc.StreamPodSandboxes(ctx, &runtime.StreamPodSandboxesRequest{})
	}, (*runtime.StreamPodSandboxesResponse).GetPodSandboxes)
}

func (c *Client) listContainers(ctx context.Context) ([]*runtime.Container, error) {
	r, err := c.rpc.ListContainers(ctx, &runtime.ListContainersRequest{})
	if !isTooLarge(err) {
		return r.GetContainers(), fromGRPC(err)
	}
	return inParts(ctx, err, func(ctx context.Context) (grpc.ServerStreamingClient[runtime.StreamContainersResponse], error) {
		return c.rpc.StreamContainers(ctx, &runtime.StreamContainersRequest{})
	}, (*runtime.StreamContainersResponse).GetContainers)
}

// isTooLarge reports whether a reply exceeds the limit of the runtime or of this client.
func isTooLarge(err error) bool { return status.Code(err) == codes.ResourceExhausted }

// inParts returns the list that exceeds the limit for one message (tooLarge) from a stream
// of shorter lists (KEP-5825, CRI of Kubernetes 1.36).
func inParts[R, T any](ctx context.Context, tooLarge error, open func(context.Context) (grpc.ServerStreamingClient[R], error), items func(*R) []T) ([]T, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends a stream after an error
	stream, err := open(ctx)
	var all []T
	for err == nil {
		var part *R
		if part, err = stream.Recv(); err == nil {
			all = append(all, items(part)...)
		}
	}
	switch {
	case errors.Is(err, io.EOF):
		return all, nil
	case isTooLarge(err) || status.Code(err) == codes.Unimplemented:
		return nil, fmt.Errorf("reply is too large: %w; remove large annotations from the pods of this node, "+
			"raise the runtime's limit up to %d bytes (containerd: max_send_message_size, CRI-O: grpc_max_send_msg_size), "+
			"or update to a runtime that streams lists", fromGRPC(tooLarge), maxMessage)
	}
	return nil, fromGRPC(err)
}

func stateOf(s runtime.ContainerState) State {
	switch s {
	case runtime.ContainerState_CONTAINER_CREATED:
		return Created
	case runtime.ContainerState_CONTAINER_RUNNING:
		return Running
	case runtime.ContainerState_CONTAINER_EXITED:
		return Exited
	default:
		return Unknown
	}
}
