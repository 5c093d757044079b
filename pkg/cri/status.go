package cri

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

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
	ct.Detailed, ct.Requested = true, requested(s.GetResources().GetLinux())
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

func requested(r *runtime.LinuxContainerResources) Resources {
	return criCPU{r.GetCpuShares(), r.GetCpuQuota(), r.GetCpuPeriod(), r.GetCpusetCpus(), r.GetCpusetMems()}.resources()
}
