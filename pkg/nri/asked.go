package nri

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	"golang.org/x/mod/semver"

	"github.com/cpupoold/cpupoold/pkg/cri"
)

// asked is the plugin as the stub sees it. The stub subscribes to an event for
// each method that it finds here, and a runtime refuses a plugin that subscribes
// to an event which it does not know. Configure leaves out the events that NRI 0.6
// (containerd 1.7, CRI-O 1.30) does not have.
type asked struct{ s *session }

// oldEvents are the events of NRI 0.6.
const oldEvents = "RunPodSandbox,StopPodSandbox,RemovePodSandbox," +
	"CreateContainer,StartContainer,UpdateContainer,StopContainer,RemoveContainer"

func (a *asked) Configure(ctx context.Context, _, _, _ string) (api.EventMask, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if limit := a.s.stub.RequestTimeout(); limit > 0 {
		a.s.limit = limit
	}
	events, err := api.ParseEventMask(oldEvents)
	if err == nil && semver.Compare("v"+strings.TrimPrefix(a.s.stub.RuntimeNRIVersion(), "v"), "v0.10.0") >= 0 {
		events.Set(api.Event_UPDATE_POD_SANDBOX)
	}
	return events, err
}

func (a *asked) Synchronize(ctx context.Context, pods []*api.PodSandbox, containers []*api.Container) ([]*api.ContainerUpdate, error) {
	// After the end of its connection the stub drops earlier messages: this
	// may be only the last part.
	if a.s.ctx.Err() != nil {
		return nil, context.Cause(a.s.ctx)
	}
	now := time.Now()
	ps := make([]cri.Pod, 0, len(pods))
	for _, p := range pods {
		ps = append(ps, podOf(p))
	}
	cs := make([]cri.Container, 0, len(containers))
	for _, c := range containers {
		cs = append(cs, containerOf(c, now))
	}
	err := a.s.comparer.begin(ctx, ps)
	if err == nil {
		err = a.s.handler.Synchronize(ctx, ps, cs)
	}
	if err != nil {
		// The runtime's answer will be to close the connection.
		a.s.end(fmt.Errorf("take over %d pods and %d containers: %w", len(ps), len(cs), err))
		return nil, err
	}
	a.s.synchronized()
	a.s.watches.Go(func() {
		if err := a.s.comparer.watch(a.s.ctx); err != nil {
			a.s.end(err)
		}
	})
	return nil, nil
}

func (a *asked) RunPodSandbox(_ context.Context, p *api.PodSandbox) error {
	a.s.comparer.note(p.GetId(), true)
	pod := podOf(p)
	pod.CreatedAt = time.Now()
	a.s.handler.RunPod(pod)
	return nil
}

func (a *asked) UpdatePodSandbox(_ context.Context, p *api.PodSandbox, _, r *api.LinuxResources) error {
	a.s.handler.ResizePod(p.GetId(), resourcesOf(r))
	return nil
}

func (a *asked) StopPodSandbox(_ context.Context, p *api.PodSandbox) error {
	a.s.handler.StopPod(p.GetId())
	return nil
}

func (a *asked) RemovePodSandbox(_ context.Context, p *api.PodSandbox) error {
	a.s.comparer.note(p.GetId(), false)
	a.s.handler.RemovePod(p.GetId())
	return nil
}

func (a *asked) CreateContainer(ctx context.Context, p *api.PodSandbox, c *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	ct := containerOf(c, time.Now())
	ct.State = cri.Created // containerd reports its state as unknown
	r, err := a.s.handler.Create(ctx, podOf(p), ct)
	if err != nil {
		return nil, nil, err
	}
	return adjustmentOf(r.Adjustment), updatesOf(r.Updates), nil
}

func (a *asked) StartContainer(ctx context.Context, _ *api.PodSandbox, c *api.Container) error {
	return a.s.handler.Start(ctx, c.GetId())
}

func (a *asked) UpdateContainer(ctx context.Context, _ *api.PodSandbox, c *api.Container, r *api.LinuxResources) ([]*api.ContainerUpdate, error) {
	instead, err := a.s.handler.Update(ctx, c.GetId(), resourcesOf(r))
	if err != nil {
		return nil, err
	}
	return insteadOf(c.GetId(), instead), nil
}

func (a *asked) StopContainer(_ context.Context, _ *api.PodSandbox, c *api.Container) ([]*api.ContainerUpdate, error) {
	a.s.handler.Stop(c.GetId())
	return nil, nil
}

func (a *asked) RemoveContainer(_ context.Context, _ *api.PodSandbox, c *api.Container) error {
	a.s.handler.Remove(c.GetId())
	return nil
}

// The stub finds methods by these interfaces, and passes over one that is none.
var (
	_ stub.ConfigureInterface       = (*asked)(nil)
	_ stub.SynchronizeInterface     = (*asked)(nil)
	_ stub.RunPodInterface          = (*asked)(nil)
	_ stub.StopPodInterface         = (*asked)(nil)
	_ stub.RemovePodInterface       = (*asked)(nil)
	_ stub.CreateContainerInterface = (*asked)(nil)
	_ stub.StartContainerInterface  = (*asked)(nil)
	_ stub.UpdateContainerInterface = (*asked)(nil)
	_ stub.StopContainerInterface   = (*asked)(nil)
	_ stub.RemoveContainerInterface = (*asked)(nil)
)
