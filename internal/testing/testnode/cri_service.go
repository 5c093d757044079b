package testnode

import (
	"context"
	"encoding/json"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/cpupoold/cpupoold/pkg/cri"
)

// service implements the part of CRI that cpupoold calls.
type service struct {
	runtime.UnimplementedRuntimeServiceServer
	r *Runtime
}

func (s *service) Version(context.Context, *runtime.VersionRequest) (*runtime.VersionResponse, error) {
	name, version := s.r.config.version()
	return &runtime.VersionResponse{
		Version:           "0.1.0",
		RuntimeName:       name,
		RuntimeVersion:    version,
		RuntimeApiVersion: "v1",
	}, nil
}

func (s *service) RuntimeConfig(ctx context.Context, req *runtime.RuntimeConfigRequest) (*runtime.RuntimeConfigResponse, error) {
	if s.r.config.NoRuntimeConfig {
		return s.UnimplementedRuntimeServiceServer.RuntimeConfig(ctx, req)
	}
	driver := runtime.CgroupDriver_SYSTEMD
	if s.r.config.Driver == cri.Cgroupfs {
		driver = runtime.CgroupDriver_CGROUPFS
	}
	return &runtime.RuntimeConfigResponse{Linux: &runtime.LinuxRuntimeConfiguration{CgroupDriver: driver}}, nil
}

func (s *service) ListPodSandbox(context.Context, *runtime.ListPodSandboxRequest) (*runtime.ListPodSandboxResponse, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	out := &runtime.ListPodSandboxResponse{}
	for _, p := range s.r.pods {
		st := p.status()
		out.Items = append(out.Items, &runtime.PodSandbox{
			Id: st.GetId(), Metadata: st.GetMetadata(), State: st.GetState(), CreatedAt: st.GetCreatedAt(),
			Labels: st.GetLabels(), Annotations: st.GetAnnotations(), RuntimeHandler: st.GetRuntimeHandler(),
		})
	}
	return out, nil
}

func (s *service) ListContainers(context.Context, *runtime.ListContainersRequest) (*runtime.ListContainersResponse, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	out := &runtime.ListContainersResponse{}
	for _, c := range s.r.containers {
		st := c.status()
		out.Containers = append(out.Containers, &runtime.Container{
			Id: st.GetId(), PodSandboxId: c.pod.id, Metadata: st.GetMetadata(), State: st.GetState(), CreatedAt: st.GetCreatedAt(),
			Annotations: c.Annotations,
		})
	}
	return out, nil
}

// StreamPodSandboxes sends one pod in each message, as CRI-O does.
func (s *service) StreamPodSandboxes(req *runtime.StreamPodSandboxesRequest, stream grpc.ServerStreamingServer[runtime.StreamPodSandboxesResponse]) error {
	if !s.r.config.ListStreams {
		return s.UnimplementedRuntimeServiceServer.StreamPodSandboxes(req, stream)
	}
	all, err := s.ListPodSandbox(stream.Context(), &runtime.ListPodSandboxRequest{})
	for _, p := range all.GetItems() {
		if err == nil {
			err = stream.Send(&runtime.StreamPodSandboxesResponse{PodSandboxes: []*runtime.PodSandbox{p}})
		}
	}
	return err
}

// StreamContainers sends one container in each message, as CRI-O does.
func (s *service) StreamContainers(req *runtime.StreamContainersRequest, stream grpc.ServerStreamingServer[runtime.StreamContainersResponse]) error {
	if !s.r.config.ListStreams {
		return s.UnimplementedRuntimeServiceServer.StreamContainers(req, stream)
	}
	all, err := s.ListContainers(stream.Context(), &runtime.ListContainersRequest{})
	for _, c := range all.GetContainers() {
		if err == nil {
			err = stream.Send(&runtime.StreamContainersResponse{Containers: []*runtime.Container{c}})
		}
	}
	return err
}

func (s *service) PodSandboxStatus(_ context.Context, req *runtime.PodSandboxStatusRequest) (*runtime.PodSandboxStatusResponse, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	p, ok := s.r.pods[req.GetPodSandboxId()]
	if !ok {
		return nil, status.Errorf(codes.NotFound, "pod sandbox %q", req.GetPodSandboxId())
	}
	out := &runtime.PodSandboxStatusResponse{Status: p.status()}
	if req.GetVerbose() {
		out.Info = p.info(s.r.config)
	}
	return out, nil
}

func (s *service) ContainerStatus(_ context.Context, req *runtime.ContainerStatusRequest) (*runtime.ContainerStatusResponse, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	c, ok := s.r.containers[req.GetContainerId()]
	if !ok {
		return nil, status.Errorf(codes.NotFound, "container %q", req.GetContainerId())
	}
	out := &runtime.ContainerStatusResponse{Status: c.status()}
	if req.GetVerbose() {
		out.Info = c.info()
	}
	return out, nil
}

// UpdateContainerResources sends the update to plugins, and then merges the set fields into the
// spec. As containerd does, it continues after the end of its client.
func (s *service) UpdateContainerResources(_ context.Context, req *runtime.UpdateContainerResourcesRequest) (*runtime.UpdateContainerResourcesResponse, error) {
	s.r.updates.RLock()
	defer s.r.updates.RUnlock()
	defer s.r.nri.blockSync()()
	s.r.mu.Lock()
	c, err := s.r.updatable(req.GetContainerId())
	s.r.mu.Unlock()
	if err != nil {
		return nil, err
	}
	linux, err := s.r.withSharedCPUs(c, req.GetLinux())
	if err != nil {
		return nil, err
	}
	switch instead, err := s.r.nri.update(c, linux); {
	case err != nil:
		return nil, status.Errorf(codes.Unknown, "NRI container update failed: %v", err)
	case instead != nil:
		linux = instead
	}
	if err := s.r.update(req.GetContainerId(), linux); err != nil {
		return nil, err
	}
	return &runtime.UpdateContainerResourcesResponse{}, nil
}

// StopContainer is idempotent. containerd does not stop a container that was not started. CRI-O
// does, because the container has a process.
func (s *service) StopContainer(_ context.Context, req *runtime.StopContainerRequest) (*runtime.StopContainerResponse, error) {
	s.r.mu.Lock()
	c, ok := s.r.containers[req.GetContainerId()]
	done := !ok || c.state == cri.Exited || c.state == cri.Created && s.r.config.Flavor == Containerd
	s.r.mu.Unlock()
	if !done {
		if err := s.r.StopContainer(req.GetContainerId()); err != nil {
			return nil, status.Errorf(codes.Unknown, "stop container %q: %v", req.GetContainerId(), err)
		}
	}
	return &runtime.StopContainerResponse{}, nil
}

func (s *service) GetContainerEvents(_ *runtime.GetEventsRequest, stream eventServer) error {
	return s.r.events.serve(stream)
}

// document returns the JSON document of a verbose status.
func document(v any) map[string]string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // maps of strings and numbers only
	}
	return map[string]string{"info": string(b)}
}
