package cri

import (
	"context"
	"errors"
	"fmt"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// UpdateCPUs has the runtime record cpus for the container and apply them: its
// own store, the OCI runtime's state, systemd's AllowedCPUs and the cgroup file
// change together. All other resources stay as they are, since in CRI's
// UpdateContainerResources a zero field means unchanged.
//
// For the same reason an empty set is an error. To lift a restriction, request
// all CPUs.
//
// The error is ErrNotFound if the container is gone and ErrNotRunning if it has
// exited. containerd takes an update of an exited container for its record
// alone, and reports none. The call runs the OCI runtime (tens of milliseconds)
// and passes through the node's NRI plugins.
//
// If the kernel refuses an update, for a CPU that does not exist, record and
// cgroup do not change, but systemd's AllowedCPUs does. (Seen with
// containerd 2.4 and systemd 257.) Repeat the update with a valid set.
func (c *Client) UpdateCPUs(ctx context.Context, id string, cpus cpuset.Set) error {
	return c.updateSet(ctx, id, "cpuset", "CPUs", cpus, &runtime.LinuxContainerResources{CpusetCpus: cpus.String()})
}

// UpdateMems is UpdateCPUs for the NUMA nodes (cpuset.mems) that the container's
// memory comes from. For a running container, the kernel moves its memory from other nodes
// before the call returns: seconds for gigabytes. After a write of the file, no memory
// remains to be moved while systemd and the runtime wait.
func (c *Client) UpdateMems(ctx context.Context, id string, nodes cpuset.Set) error {
	return c.updateSet(ctx, id, "memory nodes", "nodes", nodes, &runtime.LinuxContainerResources{CpusetMems: nodes.String()})
}

// updateSet sets r, which holds one set.
func (c *Client) updateSet(ctx context.Context, id, what, members string, set cpuset.Set, r *runtime.LinuxContainerResources) error {
	if set.IsEmpty() {
		return fmt.Errorf("update %s of container %s: empty set: CRI reads it as unchanged; name all %s instead", what, id, members)
	}
	_, err := c.rpc.UpdateContainerResources(ctx, &runtime.UpdateContainerResourcesRequest{ContainerId: id, Linux: r})
	if err == nil {
		return nil
	}
	err = fromGRPC(err)
	if !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrNotSupported) && ctx.Err() == nil {
		err = c.explain(ctx, id, err)
	}
	return fmt.Errorf("update %s of container %s to %q: %w", what, id, set, err)
}

// explain checks whether an update was refused because the container no longer exists
// or has exited. CRI-O reports that only in words, and the error of an OCI runtime during
// the exit is arbitrary.
func (c *Client) explain(ctx context.Context, id string, refusal error) error {
	r, err := c.containerStatus(ctx, &runtime.ContainerStatusRequest{ContainerId: id})
	if err != nil {
		if errors.Is(err, ErrNotFound) {
			return fmt.Errorf("%w: %w", ErrNotFound, refusal)
		}
		return refusal
	}
	if stateOf(r.GetStatus().GetState()) == Exited {
		return fmt.Errorf("%w: %w", ErrNotRunning, refusal)
	}
	return refusal
}
