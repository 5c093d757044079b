package nri

import (
	"github.com/containerd/nri/pkg/api"

	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/internal/bounded"
)

// trim removes from a request of the runtime the large parts that cpupoold does not read,
// annotations above all. keep reports whether pods need an annotation. It runs as soon as a
// request is decoded: the stub collects all messages of Synchronize, and each has up to
// 4 MiB.
func trim(request any, keep func(annotation string) bool) {
	switch r := request.(type) {
	case *api.SynchronizeRequest:
		for _, p := range r.GetPods() {
			trimPod(p, keep)
		}
		for _, c := range r.GetContainers() {
			trimContainer(c)
		}
		return
	case interface{ GetPod() *api.PodSandbox }:
		trimPod(r.GetPod(), keep)
	}
	if r, ok := request.(interface{ GetContainer() *api.Container }); ok {
		trimContainer(r.GetContainer())
	}
}

func trimPod(p *api.PodSandbox, keep func(annotation string) bool) {
	if p == nil {
		return
	}
	p.Annotations, p.Labels = bounded.Annotations(p.Annotations, keep), nil
}

func trimContainer(c *api.Container) {
	if c == nil {
		return
	}
	env := []string(nil)
	if value := cri.SharedCPUs(c.Env); value != "" {
		env = []string{cri.SharedCPUsVariable + "=" + value}
	}
	// CRI-O has the annotations of the pod in each container.
	c.Annotations, c.Labels, c.Args, c.Env, c.Mounts, c.Hooks = nil, nil, nil, env, nil, nil
}
