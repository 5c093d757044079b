package nri

import (
	"context"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// Handler makes the decisions of the plugin. The runtime sends one request at a
// time, and all starts and stops of containers on the node wait for the
// reply: 2 s at most (plugin_request_timeout). Then the runtime goes on without
// the plugin and closes the connection. So methods without a context return at
// once, and methods with a context return well before its end.
type Handler interface {
	// Synchronize receives all existing pods and containers, once for each
	// connection and before any other call.
	Synchronize(ctx context.Context, pods []cri.Pod, containers []cri.Container) error
	// RunPod reports a new pod whose sandbox runs.
	RunPod(p cri.Pod)
	// ResizePod reports the new total of a pod, before the runtime resizes its containers or
	// after. Runtimes with NRI before 0.10 do not report it.
	ResizePod(id string, total cri.Resources)
	// StopPod reports that the pod's sandbox has been stopped, RemovePod that it no
	// longer exists.
	StopPod(id string)
	RemovePod(id string)
	// Create decides about a container that does not exist yet. After an error it is
	// not created, and the kubelet gets the error's text.
	Create(ctx context.Context, p cri.Pod, c cri.Container) (Reply, error)
	// Start is called when the container's cgroup exists and its first process waits
	// there to become the entrypoint. After an error containerd does not start it, but
	// CRI-O does.
	Start(ctx context.Context, id string) error
	// Update is called before each update of a container, including our own. Non-zero
	// fields of the reply replace fields of the request.
	Update(ctx context.Context, id string, asked cri.Resources) (cri.Resources, error)
	// Stop reports that a container has ended, Remove that it no longer exists.
	Stop(id string)
	Remove(id string)
}

// Reply is the answer to Create.
type Reply struct {
	Adjustment Adjustment
	// Updates are made by the runtime before it creates the container. One that
	// fails is skipped and does not affect others.
	Updates []Update
}

// Adjustment changes the OCI spec of a new container. Zero fields change
// no value.
type Adjustment struct {
	CPUs, Mems cpuset.Set
	Shares     uint64 // CFS shares, 2..262144
	// Unlimited lifts the CFS quota. Otherwise Quota, in Period, is the new one, in microseconds.
	Unlimited     bool
	Quota, Period int64
	// Env are environment variables by name; they replace existing variables.
	// With an empty value the variable is set and empty, also where another plugin has set
	// it. NRI offers no removal: it drops the mark for it, and the container keeps the
	// variable (nri 0.12.5, pkg/adaptation/result.go, adjustEnv).
	Env map[string]string
}

// Update is another container's new cpuset.
type Update struct {
	Container string
	CPUs      cpuset.Set
}
