package testnode

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/cpupoold/cpupoold/pkg/cri"
)

// RunPod creates the pod's cgroup, as the kubelet does, and then the sandbox with its process. It
// returns the sandbox ID.
func (r *Runtime) RunPod(s PodSpec) (string, error) {
	defer r.nri.blockSync()()
	r.mu.Lock()
	p := &pod{PodSpec: s, id: r.nextID(), pid: r.lastNumber, created: time.Now(), ready: true}
	p.parent, p.dir = podCgroup(r.config.Driver, s)
	p.path, p.scope = containerCgroup(r.config, p, p.id)
	if err := r.makeCgroup(p.scope, cri.Resources{Shares: 2}, p.pid); err != nil {
		r.mu.Unlock()
		return "", fmt.Errorf("run pod %s/%s: %w", s.Namespace, s.Name, err)
	}
	r.mu.Unlock()
	if err := r.nri.runPod(p); err != nil {
		r.nri.stopPod(p)
		r.nri.removePod(p)
		return "", errors.Join(fmt.Errorf("run pod %s/%s: %w", s.Namespace, s.Name, err), r.removeCgroup(p.scope))
	}
	r.mu.Lock()
	r.pods[p.id] = p
	created := r.event(p, p.id, runtime.ContainerEventType_CONTAINER_CREATED_EVENT)
	started := r.event(p, p.id, runtime.ContainerEventType_CONTAINER_STARTED_EVENT)
	r.mu.Unlock()
	if r.config.Flavor == Containerd { // CRI-O sends no event before the sandbox has a status
		r.events.publish(created)
	}
	r.events.publish(started)
	return p.id, nil
}

// StopPod stops all running containers of the pod and removes the cgroups. containerd does not
// stop containers that were not started.
func (r *Runtime) StopPod(id string) error {
	defer r.nri.blockSync()()
	r.mu.Lock()
	p, ok := r.pods[id]
	if !ok {
		r.mu.Unlock()
		return fmt.Errorf("stop pod %s: no such pod", id)
	}
	var running []string
	for _, c := range r.containers {
		if c.pod == p && (c.state == cri.Running || c.state == cri.Created && r.config.Flavor == CRIO) {
			running = append(running, c.id)
		}
	}
	r.mu.Unlock()
	for _, c := range running {
		if err := r.StopContainer(c); err != nil {
			return err
		}
	}
	r.mu.Lock()
	if !p.ready { // already stopped, which is no error in CRI
		r.mu.Unlock()
		return nil
	}
	if err := r.removeCgroup(p.scope); err != nil {
		r.mu.Unlock()
		return fmt.Errorf("stop pod %s: %w", id, err)
	}
	p.ready, p.pid = false, 0
	stopped := r.event(p, p.id, runtime.ContainerEventType_CONTAINER_STOPPED_EVENT)
	r.mu.Unlock()
	r.nri.stopPod(p)
	r.events.publish(stopped)
	return nil
}

// RemovePod removes a stopped pod and its containers, and the pod's cgroup as the kubelet does.
func (r *Runtime) RemovePod(id string) error {
	defer r.nri.blockSync()()
	r.mu.Lock()
	p, ok := r.pods[id]
	if !ok || p.ready {
		r.mu.Unlock()
		return fmt.Errorf("remove pod %s: it does not exist or is not stopped", id)
	}
	var containers []*container
	for _, c := range r.containers {
		if c.pod == p {
			containers = append(containers, c)
		}
	}
	r.mu.Unlock()
	for _, c := range containers {
		r.nri.remove(c)
	}
	r.nri.removePod(p)
	r.mu.Lock()
	var deleted []*runtime.ContainerEventResponse
	for cid, c := range r.containers {
		if c.pod == p {
			delete(r.containers, cid)
			deleted = append(deleted, r.event(p, cid, runtime.ContainerEventType_CONTAINER_DELETED_EVENT))
		}
	}
	if err := r.removeCgroup(p.dir); err != nil {
		r.mu.Unlock()
		return fmt.Errorf("remove pod %s: %w", id, err)
	}
	delete(r.pods, id)
	deleted = append(deleted, r.event(p, id, runtime.ContainerEventType_CONTAINER_DELETED_EVENT))
	r.mu.Unlock()
	if r.config.Flavor == CRIO { // CRI-O sends no event for containers of a removed pod, nor for the pod, which has no status
		return nil
	}
	for _, ev := range deleted {
		r.events.publish(ev)
	}
	return nil
}

// Cgroup returns the cgroup of a container or sandbox relative to the root of the tree, also if
// it does not exist now. It returns the empty string for an unknown ID.
func (r *Runtime) Cgroup(id string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p, ok := r.pods[id]; ok {
		return p.scope
	}
	if c, ok := r.containers[id]; ok {
		return c.scope
	}
	return ""
}

// Garble replaces the verbose info of a container or pod with doc.
func (r *Runtime) Garble(id, doc string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p, ok := r.pods[id]; ok {
		p.infoText = &doc
	}
	if c, ok := r.containers[id]; ok {
		c.infoText = &doc
	}
}

func (r *Runtime) nextID() string {
	r.lastNumber++
	return id(r.lastNumber)
}

// startProcess creates the cgroup of a container with its first process, like "runc create".
func (r *Runtime) startProcess(c *container) error {
	r.lastNumber++
	c.pid = r.lastNumber
	if err := r.makeCgroup(c.scope, c.recorded, c.pid); err != nil {
		return err
	}
	c.cgroup = true
	return nil
}

// makeCgroup creates dir and its ancestors with enabled controllers, as the kubelet and systemd
// do. It sets the resources and adds the process.
func (r *Runtime) makeCgroup(dir string, res cri.Resources, pid int) error {
	t := r.config.Tree
	if t == nil {
		return nil
	}
	levels := r.config.levels(dir)
	at, leaf := "", levels[len(levels)-1]
	for name := range strings.SplitSeq(leaf, "/") {
		if err := t.Write(path.Join(at, "cgroup.subtree_control"), "+cpu +cpuset"); err != nil {
			return err
		}
		at = path.Join(at, name)
		if err := t.Mkdir(at); err != nil {
			return err
		}
	}
	if err := r.config.apply(dir, res); err != nil {
		return err
	}
	return t.Write(path.Join(leaf, "cgroup.procs"), strconv.Itoa(pid))
}

func (r *Runtime) removeCgroup(dir string) error {
	if r.config.Tree == nil {
		return nil
	}
	if err := r.config.Tree.Rmdir(dir); !errors.Is(err, fs.ErrNotExist) { // as runc does
		return err
	}
	return nil
}

// event returns an event with the current state of the whole pod.
func (r *Runtime) event(p *pod, id string, kind runtime.ContainerEventType) *runtime.ContainerEventResponse {
	ev := &runtime.ContainerEventResponse{
		ContainerId: id, ContainerEventType: kind, CreatedAt: time.Now().UnixNano(), PodSandboxStatus: p.status(),
	}
	for _, c := range r.containers {
		if c.pod == p {
			ev.ContainersStatuses = append(ev.ContainersStatuses, c.status())
		}
	}
	return ev
}
