package nri

import (
	"context"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// Handler decides what the runtime is to do. The runtime asks one question at a
// time, and everything on the node that makes or ends containers waits for the
// answer: 2 s at most (plugin_request_timeout), after which it goes on without
// the plugin and closes the connection. So methods without a context return at
// once, and those with one well before its end.
type Handler interface {
	// Synchronize tells all pods and containers that are there, once for each
	// connection and before anything else.
	Synchronize(ctx context.Context, pods []cri.Pod, containers []cri.Container) error
	// RunPod tells of a new pod whose sandbox runs.
	RunPod(p cri.Pod)
	// ResizePod reports the new total of a pod, before the runtime resizes its containers or
	// after. Runtimes with NRI before 0.10 do not report it.
	ResizePod(id string, total cri.Resources)
	// StopPod tells that the pod's sandbox has been stopped, RemovePod that it is
	// gone.
	StopPod(id string)
	RemovePod(id string)
	// Create decides about a container that is not there yet. After an error it is
	// not created, and the kubelet is told the error's text.
	Create(ctx context.Context, p cri.Pod, c cri.Container) (Reply, error)
	// Start is asked when the container's cgroup exists and its first process waits
	// there to become the entrypoint. After an error containerd does not start it;
	// CRI-O starts it all the same.
	Start(ctx context.Context, id string) error
	// Update is asked before somebody's update of a container, our own included. What
	// is not zero in the answer replaces what was asked for.
	Update(ctx context.Context, id string, asked cri.Resources) (cri.Resources, error)
	// Stop tells that a container has ended, Remove that it is gone.
	Stop(id string)
	Remove(id string)
}

// Reply is the answer to Create.
type Reply struct {
	Adjustment Adjustment
	// Updates are made by the runtime before it creates the container. One that
	// fails is skipped and spoils nothing else.
	Updates []Update
}

// Adjustment is what goes into the OCI spec of a new container. Fields that are
// zero leave what is there.
type Adjustment struct {
	CPUs, Mems cpuset.Set
	Shares     uint64 // CFS shares, 2..262144
	// Unlimited lifts the CFS quota. Else Quota, in Period, is the new one, in microseconds.
	Unlimited     bool
	Quota, Period int64
	// Env are environment variables by name; they replace those of the same name.
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
