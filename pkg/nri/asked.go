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

// The exported methods of session are the plugin as the stub sees it. The stub subscribes to an event for
// each of them that it finds, and a runtime refuses a plugin that subscribes
// to an event which it does not know. Configure leaves out the events that NRI 0.6
// (containerd 1.7, CRI-O 1.30) does not have.

// oldEvents are the events of NRI 0.6.
const oldEvents = "RunPodSandbox,StopPodSandbox,RemovePodSandbox," +
	"CreateContainer,StartContainer,UpdateContainer,StopContainer,RemoveContainer"

func (s *session) Configure(ctx context.Context, _, _, _ string) (api.EventMask, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if limit := s.stub.RequestTimeout(); limit > 0 {
		s.limit = limit
	}
	events, err := api.ParseEventMask(oldEvents)
	if err == nil && semver.Compare("v"+strings.TrimPrefix(s.stub.RuntimeNRIVersion(), "v"), "v0.10.0") >= 0 {
		events.Set(api.Event_UPDATE_POD_SANDBOX)
	}
	return events, err
}

func (s *session) Synchronize(ctx context.Context, pods []*api.PodSandbox, containers []*api.Container) ([]*api.ContainerUpdate, error) {
	// After the end of its connection the stub drops earlier messages: this
	// may be only the last part.
	if s.ctx.Err() != nil {
		return nil, context.Cause(s.ctx)
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
	err := s.comparer.begin(ctx, ps)
	if err == nil {
		err = s.handler.Synchronize(ctx, ps, cs)
	}
	if err != nil {
		// The runtime's answer will be to close the connection.
		s.end(fmt.Errorf("take over %d pods and %d containers: %w", len(ps), len(cs), err))
		return nil, err
	}
	s.synchronized = true
	s.enter(Connected, nil)
	s.watches.Go(func() {
		if err := s.comparer.watch(s.ctx); err != nil {
			s.end(err)
		}
	})
	return nil, nil
}

func (s *session) RunPodSandbox(_ context.Context, p *api.PodSandbox) error {
	s.comparer.note(p.GetId(), true)
	pod := podOf(p)
	pod.CreatedAt = time.Now()
	s.handler.RunPod(pod)
	return nil
}

func (s *session) UpdatePodSandbox(_ context.Context, p *api.PodSandbox, _, r *api.LinuxResources) error {
	s.handler.ResizePod(p.GetId(), resourcesOf(r))
	return nil
}

func (s *session) StopPodSandbox(_ context.Context, p *api.PodSandbox) error {
	s.handler.StopPod(p.GetId())
	return nil
}

func (s *session) RemovePodSandbox(_ context.Context, p *api.PodSandbox) error {
	s.comparer.note(p.GetId(), false)
	s.handler.RemovePod(p.GetId())
	return nil
}

func (s *session) CreateContainer(ctx context.Context, p *api.PodSandbox, c *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	ct := containerOf(c, time.Now())
	ct.State = cri.Created // containerd reports its state as unknown
	r, err := s.handler.Create(ctx, podOf(p), ct)
	if err != nil {
		return nil, nil, err
	}
	return adjustmentOf(r.Adjustment), updatesOf(r.Updates), nil
}

func (s *session) StartContainer(ctx context.Context, _ *api.PodSandbox, c *api.Container) error {
	return s.handler.Start(ctx, c.GetId())
}

func (s *session) UpdateContainer(ctx context.Context, _ *api.PodSandbox, c *api.Container, r *api.LinuxResources) ([]*api.ContainerUpdate, error) {
	instead, err := s.handler.Update(ctx, c.GetId(), resourcesOf(r))
	if err != nil {
		return nil, err
	}
	return insteadOf(c.GetId(), instead), nil
}

func (s *session) StopContainer(_ context.Context, _ *api.PodSandbox, c *api.Container) ([]*api.ContainerUpdate, error) {
	s.handler.Stop(c.GetId())
	return nil, nil
}

func (s *session) RemoveContainer(_ context.Context, _ *api.PodSandbox, c *api.Container) error {
	s.handler.Remove(c.GetId())
	return nil
}

// The stub finds methods by these interfaces, and passes over one that is none.
var (
	_ stub.ConfigureInterface       = (*session)(nil)
	_ stub.SynchronizeInterface     = (*session)(nil)
	_ stub.RunPodInterface          = (*session)(nil)
	_ stub.StopPodInterface         = (*session)(nil)
	_ stub.RemovePodInterface       = (*session)(nil)
	_ stub.CreateContainerInterface = (*session)(nil)
	_ stub.StartContainerInterface  = (*session)(nil)
	_ stub.UpdateContainerInterface = (*session)(nil)
	_ stub.StopContainerInterface   = (*session)(nil)
	_ stub.RemoveContainerInterface = (*session)(nil)
)
