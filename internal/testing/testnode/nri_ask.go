package testnode

import (
	"context"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func (h *hooks) runPod(p *pod) error {
	return h.ask(func(a *adaptation.Adaptation) error {
		h.told[p.id] = made
		return a.RunPodSandbox(context.Background(), &api.RunPodSandboxRequest{Pod: h.pod(p)})
	})
}

// stopPod and removePod tell of pods that ran since the runtime started: that it
// finds others there, it does not remember.
func (h *hooks) stopPod(p *pod) {
	_ = h.ask(func(a *adaptation.Adaptation) error { // containerd logs it
		if h.told[p.id] != made {
			return nil
		}
		h.told[p.id] = stopped
		return a.StopPodSandbox(context.Background(), &api.StopPodSandboxRequest{Pod: h.pod(p)})
	})
}

func (h *hooks) removePod(p *pod) {
	_ = h.ask(func(a *adaptation.Adaptation) error {
		if h.told[p.id] == gone {
			return nil
		}
		delete(h.told, p.id)
		return a.RemovePodSandbox(context.Background(), &api.RemovePodSandboxRequest{Pod: h.pod(p)})
	})
}

// create asks about a container that is not there yet and makes the updates that
// are answered. It returns the adjustment, nil if there is none.
func (h *hooks) create(c *container) (adjust *api.ContainerAdjustment, err error) {
	err = h.ask(func(a *adaptation.Adaptation) error {
		h.told[c.id] = made
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
		h.told[c.id] = made
		return a.StartContainer(context.Background(), &api.StartContainerRequest{Pod: h.pod(c.pod), Container: h.container(c)})
	})
}

// update asks about somebody's update. It returns what to do, which is nil if
// plugins let be what was asked for.
func (h *hooks) update(c *container, asked *runtime.LinuxContainerResources) (instead *runtime.LinuxContainerResources, err error) {
	err = h.ask(func(a *adaptation.Adaptation) error {
		rpl, err := a.UpdateContainer(context.Background(), &api.UpdateContainerRequest{
			Pod: h.pod(c.pod), Container: h.container(c), LinuxResources: nriOfCRI(asked)})
		if err != nil {
			return err
		}
		// The last one is of the container itself.
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

// stopLocked is stop for who asks already. Plugins are told once, however often a
// container is stopped.
func (h *hooks) stopLocked(a *adaptation.Adaptation, c *container) error {
	if h.told[c.id] != made {
		return nil
	}
	h.told[c.id] = stopped
	rpl, err := a.StopContainer(context.Background(), &api.StopContainerRequest{Pod: h.pod(c.pod), Container: h.container(c)})
	if err != nil {
		return err
	}
	return h.apply(rpl.GetUpdate())
}

func (h *hooks) remove(c *container) {
	_ = h.ask(func(a *adaptation.Adaptation) error {
		if h.told[c.id] == gone {
			return nil
		}
		_ = h.stopLocked(a, c) // containerd logs it
		delete(h.told, c.id)
		return a.RemoveContainer(context.Background(), &api.RemoveContainerRequest{Pod: h.pod(c.pod), Container: h.container(c)})
	})
}

// undo takes back what plugins were told of a container that could not be made.
func (h *hooks) undo(c *container) {
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
