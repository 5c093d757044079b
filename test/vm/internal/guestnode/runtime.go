package guestnode

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// Runtime is the machine image's description of its container runtime:
// test/vm/parts/layers/*/etc/vm-node.
type Runtime struct {
	Name   string        `json:"name"`   // its own name: containerd or cri-o
	Unit   string        `json:"unit"`   // of systemd, without .service
	Socket string        `json:"socket"` // path, of CRI
	OCI    string        `json:"oci"`    // runc or crun
	Driver cgroup.Driver `json:"driver"` // of the runtime and the kubelet
	NRI    bool          `json:"nri"`    // it listens for plugins
	Events bool          `json:"events"` // it sends CRI's events
}

// ReadRuntime reads it. If two files have the same key, the last one by name takes precedence.
func ReadRuntime() (Runtime, error) {
	const pattern = "/etc/vm-node/*.json"
	files, err := filepath.Glob(pattern)
	if err != nil {
		return Runtime{}, err
	}
	if len(files) == 0 {
		return Runtime{}, fmt.Errorf("read the node's runtime: no %s: boot a machine with vm.Config.Node", pattern)
	}
	var r Runtime
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return Runtime{}, err
		}
		d := json.NewDecoder(bytes.NewReader(data))
		d.DisallowUnknownFields()
		if err := d.Decode(&r); err != nil {
			return Runtime{}, fmt.Errorf("parse %s: %w", file, err)
		}
	}
	return r, nil
}

// RemovePod stops a pod, and removes first its containers and then the pod, as the kubelet does. With
// containers, RemovePodSandbox of containerd 2.4 waits forever if an NRI plugin connects during the call.
func RemovePod(ctx context.Context, rpc runtime.RuntimeServiceClient, id string) error {
	if _, err := rpc.StopPodSandbox(ctx, &runtime.StopPodSandboxRequest{PodSandboxId: id}); err != nil {
		return fmt.Errorf("stop pod: %w", err)
	}
	all, err := rpc.ListContainers(ctx, &runtime.ListContainersRequest{Filter: &runtime.ContainerFilter{PodSandboxId: id}})
	if err != nil {
		return fmt.Errorf("list containers of the pod: %w", err)
	}
	for _, c := range all.GetContainers() {
		if _, err := rpc.RemoveContainer(ctx, &runtime.RemoveContainerRequest{ContainerId: c.GetId()}); err != nil {
			return fmt.Errorf("remove container: %w", err)
		}
	}
	if _, err := rpc.RemovePodSandbox(ctx, &runtime.RemovePodSandboxRequest{PodSandboxId: id}); err != nil {
		return fmt.Errorf("remove pod: %w", err)
	}
	return nil
}
