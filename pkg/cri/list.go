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
		ID: p.GetId(), UID: m.GetUid(), Namespace: m.GetNamespace(), Name: m.GetName(),
		Ready:          p.GetState() == runtime.PodSandboxState_SANDBOX_READY,
		CreatedAt:      time.Unix(0, p.GetCreatedAt()),
		Annotations:    bounded.Annotations(p.GetAnnotations(), c.keep),
		RuntimeHandler: p.GetRuntimeHandler(),
	}
}

// containerOf returns the part of a container that lists and statuses have.
func containerOf(ct listed[*runtime.ContainerMetadata, runtime.ContainerState]) Container {
	return Container{
		ID: ct.GetId(), Name: ct.GetMetadata().GetName(),
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

// PodStatus returns a pod with all its fields. The error is ErrNotFound if the
// runtime does not know it. If it is an *InfoError, the Pod is valid but for
// the fields that the error speaks of.
//
// The runtime reads its database for it: ask once for each pod.
func (c *Client) PodStatus(ctx context.Context, id string) (Pod, error) {
	r, err := withLimit(ctx, c, func(limit grpc.CallOption) (*runtime.PodSandboxStatusResponse, error) {
		return c.rpc.PodSandboxStatus(ctx, &runtime.PodSandboxStatusRequest{PodSandboxId: id, Verbose: true}, limit)
	})
	if err != nil {
		return Pod{}, fmt.Errorf("read status of pod %s: %w", id, err)
	}
	s := r.GetStatus()
	if s == nil {
		return Pod{}, fmt.Errorf("read status of pod %s: %w", id, errNoStatus)
	}
	p := c.podOf(s)
	p.Detailed = true
	i, field, err := parseInfo(r.GetInfo()[infoKey])
	if err != nil {
		return p, &InfoError{Kind: "pod", ID: id, Field: field, Err: err}
	}
	p.CgroupsPath = i.RuntimeSpec.Linux.CgroupsPath
	p.PID = i.PID
	p.CgroupParent, p.Resources, field, err = i.podConfig(s.GetAnnotations())
	p.Resized = i.Resources != nil
	if err != nil {
		return p, &InfoError{Kind: "pod", ID: id, Field: field, Err: err}
	}
	return p, nil
}

// ContainerStatus returns a container with all its fields. The error is
// ErrNotFound if the runtime does not know it. If it is an *InfoError, the
// Container is valid but for the fields that the error speaks of.
//
// It costs the runtime some milliseconds (containerd reads its database and
// decodes the whole spec): ask once for each container and after an update.
func (c *Client) ContainerStatus(ctx context.Context, id string) (Container, error) {
	r, err := c.containerStatus(ctx, &runtime.ContainerStatusRequest{ContainerId: id, Verbose: true})
	if err != nil {
		return Container{}, fmt.Errorf("read status of container %s: %w", id, err)
	}
	s := r.GetStatus()
	if s == nil {
		return Container{}, fmt.Errorf("read status of container %s: %w", id, errNoStatus)
	}
	ct := containerOf(s)
	res := s.GetResources().GetLinux()
	ct.Detailed = true
	ct.Requested = criCPU{res.GetCpuShares(), res.GetCpuQuota(), res.GetCpuPeriod(), res.GetCpusetCpus(), res.GetCpusetMems()}.resources()
	if at := s.GetFinishedAt(); at > 0 && ct.State == Exited {
		ct.FinishedAt = time.Unix(0, at)
	}
	i, field, err := parseInfo(r.GetInfo()[infoKey])
	if err != nil {
		return ct, &InfoError{Kind: "container", ID: id, Field: field, Err: err}
	}
	ct.PodID = i.SandboxID
	if ct.State != Exited { // CRI-O goes on to tell a PID that may by now be another process's
		ct.PID = i.PID
	}
	ct.CgroupsPath = i.RuntimeSpec.Linux.CgroupsPath
	ct.Recorded = i.RuntimeSpec.Linux.Resources.CPU
	ct.SharedCPUs = SharedCPUs(i.RuntimeSpec.Process.Env)
	ct.HasDevices = len(i.Config.CDIDevices) > 0
	switch {
	case ct.PodID == "":
		return ct, &InfoError{Kind: "container", ID: id, Field: "sandboxID", Err: errMissing}
	case ct.CgroupsPath == "":
		return ct, &InfoError{Kind: "container", ID: id, Field: "runtimeSpec.linux.cgroupsPath", Err: errMissing}
	}
	return ct, nil
}

func (c *Client) containerStatus(ctx context.Context, r *runtime.ContainerStatusRequest) (*runtime.ContainerStatusResponse, error) {
	return withLimit(ctx, c, func(limit grpc.CallOption) (*runtime.ContainerStatusResponse, error) {
		return c.rpc.ContainerStatus(ctx, r, limit)
	})
}

var errNoStatus = errors.New("the runtime's reply holds no status")
