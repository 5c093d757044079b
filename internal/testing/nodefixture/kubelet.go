package nodefixture

import (
	"context"
	"strings"
	"sync"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/podresources"
)

// Kubelet reports the NUMA nodes of devices, as the pod resources API does.
type Kubelet struct {
	mu    sync.Mutex            // guards all fields
	nodes map[string]cpuset.Set // by namespace/pod/container
	err   error
	gate  chan struct{} // if not nil, calls wait until it is closed
	calls int
	most  int // maximum of now
	now   int // running calls
}

// NewKubelet returns a kubelet without devices.
func NewKubelet() *Kubelet { return &Kubelet{nodes: make(map[string]cpuset.Set)} }

// Admit gives a container devices on NUMA nodes. The container is named
// namespace/pod/name.
func (k *Kubelet) Admit(container string, nodes ...int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.nodes[container] = cpuset.Of(nodes...)
}

// Fail makes List return err, or succeed again for nil.
func (k *Kubelet) Fail(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = err
}

// Hang makes List wait until release is called.
func (k *Kubelet) Hang() (release func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	gate := make(chan struct{})
	k.gate = gate
	return sync.OnceFunc(func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.gate = nil
		close(gate)
	})
}

// Calls returns the number of calls of List, and the most at the same time.
func (k *Kubelet) Calls() (calls, atOnce int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.calls, k.most
}

// List returns the containers with devices.
func (k *Kubelet) List(ctx context.Context) ([]podresources.Container, error) {
	k.mu.Lock()
	k.calls++
	k.now++
	k.most = max(k.most, k.now)
	gate := k.gate
	k.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.now--
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if k.err != nil {
		return nil, k.err
	}
	var all []podresources.Container
	for name, nodes := range k.nodes {
		part := strings.Split(name, "/")
		all = append(all, podresources.Container{Namespace: part[0], Pod: part[1], Name: part[2], Nodes: nodes})
	}
	return all, nil
}
