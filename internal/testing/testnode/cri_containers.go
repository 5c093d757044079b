package testnode

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// CreateContainer creates a container with the adjustments of plugins. With CRI-O its cgroup
// exists afterwards, with containerd from StartContainer on. For an existing container, CRI-O
// returns its ID.
func (r *Runtime) CreateContainer(podID string, s ContainerSpec) (string, error) {
	defer r.nri.blockSync()()
	r.mu.Lock()
	p, err := r.creatable(podID, s)
	if reserved := new(reservedError); errors.As(err, reserved) && r.config.Flavor == CRIO {
		r.mu.Unlock()
		return reserved.id, nil
	}
	if err != nil {
		r.mu.Unlock()
		return "", err
	}
	c := &container{ContainerSpec: s, id: r.nextID(), created: time.Now(), pod: p, state: cri.Created, recorded: s.Resources, shown: s.Resources,
		env: slices.Clone(s.Env)}
	if r.config.Flavor == CRIO {
		c.CDIDevices = nil
	}
	c.path, c.scope = containerCgroup(r.config, p, c.id)
	r.mu.Unlock()

	adjustment, err := r.nri.create(c)
	if err != nil {
		r.nri.reportEnd(c)
		return "", fmt.Errorf("create container %s: NRI: %w", s.Name, err)
	}
	r.reach(Answered)
	created, err := r.add(c, func() {
		c.adjust(adjustment)
		if r.config.Flavor == CRIO {
			c.shown = c.recorded
		}
	})
	if err != nil {
		r.nri.reportEnd(c)
		return "", err
	}
	r.events.publish(created)
	return c.id, nil
}

// creatable returns the pod if it can get the container. The caller holds r.mu.
func (r *Runtime) creatable(podID string, s ContainerSpec) (*pod, error) {
	p, ok := r.pods[podID]
	if !ok || !p.ready {
		return nil, fmt.Errorf("create container %s: pod %s does not exist or is not ready", s.Name, podID)
	}
	for id, other := range r.containers {
		if other.pod == p && other.Name == s.Name && other.Attempt == s.Attempt {
			return nil, fmt.Errorf("create container %s, attempt %d: %w", s.Name, s.Attempt, reservedError{id})
		}
	}
	return p, nil
}

// reservedError is the error for an existing container with the same name and attempt.
type reservedError struct{ id string }

func (e reservedError) Error() string { return "the name is reserved for " + e.id }

// add adds a container, if that is still possible.
func (r *Runtime) add(c *container, adjust func()) (*runtime.ContainerEventResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.creatable(c.pod.id, c.ContainerSpec); err != nil {
		return nil, err
	}
	adjust()
	if r.config.Flavor == CRIO {
		if err := r.startProcess(c); err != nil {
			return nil, fmt.Errorf("create container %s: %w", c.Name, err)
		}
	}
	r.containers[c.id] = c
	return r.event(c.pod, c.id, runtime.ContainerEventType_CONTAINER_CREATED_EVENT), nil
}

// StartContainer starts a created container. Plugins receive the request when its cgroup exists
// and its first process waits. If they refuse, the container exits on containerd, and starts
// regardless on CRI-O. The event follows the start of the entrypoint.
func (r *Runtime) StartContainer(id string) error {
	defer r.nri.blockSync()()
	r.mu.Lock()
	c, ok := r.containers[id]
	if !ok || c.state != cri.Created || c.starting || !c.pod.ready {
		r.mu.Unlock()
		return fmt.Errorf("start container %s: it does not exist or is not in the state created, or its pod is stopped", id)
	}
	if !c.cgroup {
		if err := r.startProcess(c); err != nil {
			r.mu.Unlock()
			return fmt.Errorf("start container %s: %w", id, err)
		}
	}
	c.starting = true
	r.mu.Unlock()

	r.reach(Made)
	refused := r.nri.start(c)
	r.reach(Allowed)
	if refused != nil && r.config.Flavor == Containerd {
		r.mu.Lock()
		err := r.removeCgroup(c.scope)
		c.state, c.starting, c.pid, c.cgroup, c.finished = cri.Exited, false, 0, false, time.Now()
		r.mu.Unlock()
		r.nri.stop(c)
		return errors.Join(fmt.Errorf("start container %s: NRI: %w", id, refused), err)
	}
	began, err := r.effective(c.scope)
	if err != nil {
		return fmt.Errorf("start container %s: %w", id, err)
	}
	r.mu.Lock()
	c.startCPUs = began
	c.state, c.starting = cri.Running, false
	started := r.event(c.pod, id, runtime.ContainerEventType_CONTAINER_STARTED_EVENT)
	r.mu.Unlock()
	r.events.publish(started)
	return nil
}

// FailStart imitates a start that the OCI runtime refuses. The container has exited afterwards.
// As with containerd, there is no event.
func (r *Runtime) FailStart(id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.containers[id]
	if !ok || c.state != cri.Created || c.starting || c.cgroup {
		return fmt.Errorf("fail start of container %s: it does not exist, is not in the state created, or has a cgroup", id)
	}
	c.state, c.finished = cri.Exited, time.Now()
	return nil
}

// StopContainer ends a container and removes its cgroup. It imitates a stop by the kubelet, and
// the exit of the container's own process.
func (r *Runtime) StopContainer(id string) error {
	r.mu.Lock()
	c, ok := r.containers[id]
	if !ok || c.state == cri.Exited || c.starting {
		r.mu.Unlock()
		return fmt.Errorf("stop container %s: it does not exist, has exited, or is starting", id)
	}
	if c.cgroup {
		if err := r.removeCgroup(c.scope); err != nil {
			r.mu.Unlock()
			return fmt.Errorf("stop container %s: %w", id, err)
		}
	}
	if r.config.Flavor == CRIO {
		c.exitedPID = c.pid
	}
	c.state, c.pid, c.cgroup, c.finished = cri.Exited, 0, false, time.Now()
	stopped := r.event(c.pod, id, runtime.ContainerEventType_CONTAINER_STOPPED_EVENT)
	r.mu.Unlock()
	r.nri.stop(c)
	r.events.publish(stopped)
	return nil
}

// RemoveContainer removes an exited container.
func (r *Runtime) RemoveContainer(id string) error {
	defer r.nri.blockSync()()
	r.mu.Lock()
	c, ok := r.containers[id]
	if !ok || c.state != cri.Exited {
		r.mu.Unlock()
		return fmt.Errorf("remove container %s: it does not exist or has not exited", id)
	}
	r.mu.Unlock()
	r.nri.remove(c)
	r.mu.Lock()
	delete(r.containers, id)
	deleted := r.event(c.pod, id, runtime.ContainerEventType_CONTAINER_DELETED_EVENT)
	r.mu.Unlock()
	r.events.publish(deleted)
	return nil
}

// Env returns the environment in the container's OCI spec, as NAME=value.
func (r *Runtime) Env(id string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c, ok := r.containers[id]; ok {
		return slices.Clone(c.env)
	}
	return nil
}

// effective returns the effective CPUs of a cgroup.
func (r *Runtime) effective(scope string) (cpuset.Set, error) {
	if r.config.Tree == nil {
		return cpuset.Set{}, nil
	}
	b, err := r.config.Tree.ReadFile(path.Join(scope, "cpuset.cpus.effective"), 1<<12)
	if err != nil {
		return cpuset.Set{}, err
	}
	return cpuset.Parse(strings.TrimSpace(string(b)))
}

// BeganOn returns the effective CPUs of a container at the start of its entrypoint.
func (r *Runtime) BeganOn(id string) cpuset.Set {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c, ok := r.containers[id]; ok {
		return c.startCPUs
	}
	return cpuset.Set{}
}
