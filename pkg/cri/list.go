package cri

import (
	"context"
	"fmt"
	"time"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// List returns all pods and containers, in two calls whatever their number.
// What a list does not tell is left zero; see Detailed. Containers can name pods
// that are not in the list and the other way round: they come and go between
// the calls.
func (c *Client) List(ctx context.Context) ([]Pod, []Container, error) {
	ps, err := c.rpc.ListPodSandbox(ctx, &runtime.ListPodSandboxRequest{})
	if err != nil {
		return nil, nil, fmt.Errorf("list pods: %w", fromGRPC(err))
	}
	cs, err := c.rpc.ListContainers(ctx, &runtime.ListContainersRequest{})
	if err != nil {
		return nil, nil, fmt.Errorf("list containers: %w", fromGRPC(err))
	}
	pods := make([]Pod, len(ps.GetItems()))
	for i, p := range ps.GetItems() {
		pods[i] = Pod{
			ID:             p.GetId(),
			UID:            p.GetMetadata().GetUid(),
			Namespace:      p.GetMetadata().GetNamespace(),
			Name:           p.GetMetadata().GetName(),
			Attempt:        p.GetMetadata().GetAttempt(),
			Ready:          p.GetState() == runtime.PodSandboxState_SANDBOX_READY,
			CreatedAt:      time.Unix(0, p.GetCreatedAt()),
			Annotations:    p.GetAnnotations(),
			Labels:         p.GetLabels(),
			RuntimeHandler: p.GetRuntimeHandler(),
		}
	}
	containers := make([]Container, len(cs.GetContainers()))
	for i, ct := range cs.GetContainers() {
		containers[i] = Container{
			ID:        ct.GetId(),
			PodID:     ct.GetPodSandboxId(),
			Name:      ct.GetMetadata().GetName(),
			Attempt:   ct.GetMetadata().GetAttempt(),
			State:     stateOf(ct.GetState()),
			CreatedAt: time.Unix(0, ct.GetCreatedAt()),
		}
	}
	return pods, containers, nil
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
