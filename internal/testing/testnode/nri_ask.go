package testnode

import (
	"context"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/cpupoold/cpupoold/pkg/cri"
)

func (h *hooks) runPod(p *pod) error {
	return h.ask(func(a *adaptation.Adaptation) error {
		h.stages[p.id] = made
		return a.RunPodSandbox(context.Background(), &api.RunPodSandboxRequest{Pod: h.pod(p)})
	})
}

// updatePod sends the new total of a pod, as containerd does before it records the total.
func (h *hooks) updatePod(p *pod, total cri.Resources) error {
	return h.ask(func(a *adaptation.Adaptation) error {
		_, err := a.UpdatePodSandbox(context.Background(), &api.UpdatePodSandboxRequest{Pod: h.pod(p), LinuxResources: nriOfCRI(criResources(total))})
		return err
	})
}

// stopPod and removePod report pods that ran since the start of the runtime. The runtime does not
// report pods that it found at its start.
func (h *hooks) stopPod(p *pod) {
	_ = h.ask(func(a *adaptation.Adaptation) error { // containerd logs it
		if h.stages[p.id] != made {
			return nil
		}
		h.stages[p.id] = stopped
		return a.StopPodSandbox(context.Background(), &api.StopPodSandboxRequest{Pod: h.pod(p)})
	})
}

func (h *hooks) removePod(p *pod) {
	_ = h.ask(func(a *adaptation.Adaptation) error {
		if h.stages[p.id] == removed {
			return nil
		}
		delete(h.stages, p.id)
		return a.RemovePodSandbox(context.Background(), &api.RemovePodSandboxRequest{Pod: h.pod(p)})
	})
}

// create sends a request about a new container and applies the updates in the reply. It returns
// the adjustment, or nil.
func (h *hooks) create(c *container) (adjust *api.ContainerAdjustment, err error) {
	err = h.ask(func(a *adaptation.Adaptation) error {
		h.stages[c.id] = made
		rpl, err := a.CreateContainer(context.Background(), &api.CreateContainerRequest{Pod: h.pod(c.pod), Container: h.container(c)})
		if err != nil {
			return err
		}
		_ = h.apply(rpl.GetUpdate()) // containerd logs it
		adjust = rpl.GetAdjust()
		return nil
	})
	return adjust, err
}

func (h *hooks) start(c *container) error {
	return h.ask(func(a *adaptation.Adaptation) error {
		h.stages[c.id] = made
		return a.StartContainer(context.Background(), &api.StartContainerRequest{Pod: h.pod(c.pod), Container: h.container(c)})
	})
}

// update sends a request about an update of the container. It returns the replacement for the
// update, or nil if plugins do not change it.
func (h *hooks) update(c *container, asked *runtime.LinuxContainerResources) (instead *runtime.LinuxContainerResources, err error) {
	err = h.ask(func(a *adaptation.Adaptation) error {
		rpl, err := a.UpdateContainer(context.Background(), &api.UpdateContainerRequest{
			Pod: h.pod(c.pod), Container: h.container(c), LinuxResources: nriOfCRI(asked)})
		if err != nil {
			return err
		}
		// The last update is about the container itself.
		updates := rpl.GetUpdate()
		if len(updates) == 0 {
			return nil
		}
		last := len(updates) - 1
		_ = h.apply(updates[:last]) // containerd logs it
		if r := updates[last].GetLinux().GetResources(); r != nil {
			instead = criOfNRI(r)
		}
		return nil
	})
	return instead, err
}

func (h *hooks) stop(c *container) {
	_ = h.ask(func(a *adaptation.Adaptation) error { return h.stopLocked(a, c) })
}

// stopLocked is stop for a caller that holds asking. Plugins receive one stop of a container,
// even if it is stopped repeatedly.
func (h *hooks) stopLocked(a *adaptation.Adaptation, c *container) error {
	if h.stages[c.id] != made {
		return nil
	}
	h.stages[c.id] = stopped
	rpl, err := a.StopContainer(context.Background(), &api.StopContainerRequest{Pod: h.pod(c.pod), Container: h.container(c)})
	if err != nil {
		return err
	}
	return h.apply(rpl.GetUpdate())
}

func (h *hooks) remove(c *container) {
	_ = h.ask(func(a *adaptation.Adaptation) error {
		if h.stages[c.id] == removed {
			return nil
		}
		_ = h.stopLocked(a, c) // containerd logs it
		delete(h.stages, c.id)
		return a.RemoveContainer(context.Background(), &api.RemoveContainerRequest{Pod: h.pod(c.pod), Container: h.container(c)})
	})
}

// reportEnd reports the end of a container that could not be created.
func (h *hooks) reportEnd(c *container) {
	h.stop(c)
	h.remove(c)
}

func (h *hooks) pod(p *pod) *api.PodSandbox {
	h.r.mu.Lock()
	defer h.r.mu.Unlock()
	return p.toNRI()
}

func (h *hooks) container(c *container) *api.Container {
	h.r.mu.Lock()
	defer h.r.mu.Unlock()
	return c.toNRI()
}
