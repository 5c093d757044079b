package hostenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/annotations"
	"github.com/cpupoold/cpupoold/internal/node/managers"
	"github.com/cpupoold/cpupoold/internal/node/procroot"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// Runtime is the part of the CRI client that the daemon uses.
type Runtime interface {
	List(ctx context.Context) ([]cri.Pod, []cri.Container, error)
	PodStatus(ctx context.Context, id string) (cri.Pod, error)
	ContainerStatus(ctx context.Context, id string) (cri.Container, error)
	UpdateCPUs(ctx context.Context, id string, cpus cpuset.Set) error
	UpdateMems(ctx context.Context, id string, nodes cpuset.Set) error
	Stop(ctx context.Context, id string, timeout time.Duration) error
	Watch(ctx context.Context, h cri.Handler) error
}

// crioName is the runtime name that CRI-O reports (cri-o, server/version.go).
const crioName = "cri-o"

// dockerName is the runtime name that cri-dockerd reports (cri-dockerd, core/docker_service.go).
const dockerName = "docker"

// errDocker refuses cri-dockerd. Its details of a container have sandbox and process, but neither
// the cgroup nor the resources (cri-dockerd, verboseContainerInfo in core/convert.go).
var errDocker = errors.New("this is cri-dockerd, which is not supported: it reports no cgroups of containers; use containerd or CRI-O")

// readCRIO returns the configuration of CRI-O, also from within a pod without these files.
func readCRIO() managers.CRIO { return managers.ReadCRIO(procroot.Of(os.DirFS("/"), 1)) }

// link is the connection to a runtime that has answered.
type link struct {
	client   *cri.Client
	endpoint string // of client; guessed if neither configuration nor kubelet has named it
	guessed  bool

	name   string // that the runtime reports
	driver cgroup.Driver
	// annotations selects the annotations that client keeps.
	annotations *annotations.Filter
}

// hasPods reports whether pods run. An unused runtime keeps pods that have ended.
func (rt link) hasPods(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	pods, _, err := rt.client.List(ctx)
	return err == nil && slices.ContainsFunc(pods, func(p cri.Pod) bool { return p.Ready })
}

func (rt link) close() {
	if rt.client != nil {
		_ = rt.client.Close() // every call has ended: nothing is lost
	}
}

// connect finds the runtime, and asks for its name and driver. A machine without one runs systemd.
func connect(ctx context.Context, c *config.Config, fs *cgroup.FS) (link, error) {
	if !c.HasRuntime() {
		return link{driver: cgroup.DriverSystemd}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	endpoint, guessed, err := findEndpoint(ctx, c, finder{kubeletEndpoint, cri.Find})
	if err != nil {
		return link{}, err
	}
	filter := annotations.New(c.Names())
	client, err := cri.Dial(endpoint, filter.Reads)
	if err != nil {
		return link{}, err
	}
	rt := link{client: client, endpoint: endpoint, guessed: guessed, annotations: filter}
	// Any version is accepted, but it must answer: a containerd with its CRI plugin switched
	// off answers the question for the driver as an old runtime does.
	if rt.name, _, err = client.Version(ctx); err == nil && rt.name == dockerName {
		err = errDocker
	}
	if err == nil {
		rt.driver, err = findDriver(ctx, client, fs)
	}
	if err != nil {
		rt.close()
		return link{}, fmt.Errorf("ask %s: %w", endpoint, err)
	}
	return rt, nil
}

// findDriver asks the runtime, then the kubelet's cgroup, then whether systemd runs.
func findDriver(ctx context.Context, client *cri.Client, fs *cgroup.FS) (cgroup.Driver, error) {
	d, err := client.CgroupDriver(ctx)
	switch {
	case err == nil:
		return cgroup.Driver(d), nil
	case !errors.Is(err, cri.ErrNotSupported):
		return "", err
	}
	// systemd's slice comes first: a node with that driver may have a cgroup kubepods as
	// well, made by an administrator to keep the controllers.
	if _, err := fs.Read("kubepods.slice"); err == nil {
		return cgroup.DriverSystemd, nil
	}
	if _, err := fs.Read("kubepods"); err == nil {
		return cgroup.DriverCgroupfs, nil
	}
	if systemdRuns() {
		return cgroup.DriverSystemd, nil
	}
	return cgroup.DriverCgroupfs, nil
}
