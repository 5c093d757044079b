package testnode

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"path"
	"strconv"
	"strings"
	"time"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// PodSpec is the part of a pod that the kubelet sends to a runtime.
type PodSpec struct {
	UID, Namespace, Name string
	// QoS is "guaranteed", "burstable" or "besteffort"; empty is guaranteed.
	QoS string
	// System is true for a pod in the kubelet's system partition.
	System         bool
	Annotations    map[string]string
	RuntimeHandler string
	// Resources holds the total of the pod.
	Resources cri.Resources
}

// ContainerSpec is the part of a container that the kubelet sends to a runtime.
type ContainerSpec struct {
	Name        string
	Attempt     uint32
	Annotations map[string]string
	Resources   cri.Resources
	// Env is the environment of pod, image and CDI devices, as NAME=value.
	Env []string
	// CDIDevices are the names of the CDI devices in the kubelet's request. CRI-O does not report them
	// to NRI plugins.
	CDIDevices []string
}

type pod struct {
	PodSpec
	id       string
	pid      int
	created  time.Time
	ready    bool
	parent   string // cgroup parent, in the form of the kubelet
	dir      string // cgroup of the pod
	path     string // linux.cgroupsPath of the sandbox
	scope    string // cgroup of the sandbox
	infoText *string
	resized  *cri.Resources // total of the pod since a resize
	ownTotal bool           // pod-level resources: the total does not follow the containers
}

type container struct {
	ContainerSpec
	id        string
	pid       int // 0 if it is not running
	exitedPID int // PID of an exited container, which CRI-O still reports
	created   time.Time
	finished  time.Time // zero before the exit
	pod       *pod
	state     cri.State
	recorded  cri.Resources
	shown     cri.Resources // in CRI's status
	env       []string      // process.env in the OCI spec
	starting  bool          // plugins decide about the start
	path      string        // linux.cgroupsPath
	scope     string        // cgroup of the container
	cgroup    bool          // the cgroup exists
	startCPUs cpuset.Set    // CPUs at the start
	infoText  *string
}

// id returns the n-th ID: 64 hexadecimal digits, like the IDs of the runtimes.
func id(n int) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(strconv.Itoa(n)))) }

// podCgroup returns the cgroup parent and the directory of a pod, with the names of the kubelet
// (pkg/kubelet/cm/cgroup_manager_linux.go).
func podCgroup(d cri.Driver, s PodSpec) (parent, dir string) {
	burst := s.QoS == "burstable" || s.QoS == "besteffort"
	if d == cri.Cgroupfs {
		dir = "kubepods"
		if s.System {
			dir = path.Join(dir, "system")
		}
		if burst {
			dir = path.Join(dir, s.QoS)
		}
		dir = path.Join(dir, "pod"+s.UID)
		return "/" + dir, dir
	}
	slice, dir := "kubepods", "kubepods.slice"
	if s.System {
		slice += "-system"
		dir = path.Join(dir, slice+".slice")
	}
	if burst {
		slice += "-" + s.QoS
		dir = path.Join(dir, slice+".slice")
	}
	parent = slice + "-pod" + strings.ReplaceAll(s.UID, "-", "_") + ".slice"
	return parent, path.Join(dir, parent)
}

// containerCgroup returns linux.cgroupsPath and the directory of a container or sandbox, with the
// names of the runtimes.
func containerCgroup(c RuntimeConfig, p *pod, id string) (cgroupsPath, dir string) {
	prefix := "cri-containerd"
	if c.Flavor == CRIO {
		prefix = "crio"
	}
	if c.Driver == cri.Systemd {
		return p.parent + ":" + prefix + ":" + id, path.Join(p.dir, prefix+"-"+id+".scope")
	}
	base := id
	if c.Flavor == CRIO {
		base = "crio-" + id
	}
	return path.Join(p.parent, base), path.Join(p.dir, base)
}

func (p *pod) status() *runtime.PodSandboxStatus {
	state := runtime.PodSandboxState_SANDBOX_NOTREADY
	if p.ready {
		state = runtime.PodSandboxState_SANDBOX_READY
	}
	return &runtime.PodSandboxStatus{
		Id:             p.id,
		Metadata:       &runtime.PodSandboxMetadata{Name: p.Name, Namespace: p.Namespace, Uid: p.UID},
		State:          state,
		CreatedAt:      p.created.UnixNano(),
		Labels:         p.labels(),
		Annotations:    p.Annotations,
		RuntimeHandler: p.RuntimeHandler,
	}
}

func (p *pod) labels() map[string]string {
	return map[string]string{
		"io.kubernetes.pod.name": p.Name, "io.kubernetes.pod.namespace": p.Namespace, "io.kubernetes.pod.uid": p.UID,
	}
}

func (c *container) status() *runtime.ContainerStatus {
	var finished int64
	if !c.finished.IsZero() {
		finished = c.finished.UnixNano()
	}
	return &runtime.ContainerStatus{
		FinishedAt: finished,
		Id:         c.id,
		Metadata:   &runtime.ContainerMetadata{Name: c.Name, Attempt: c.Attempt},
		State:      criState(c.state),
		CreatedAt:  c.created.UnixNano(),
		Resources:  &runtime.ContainerResources{Linux: criResources(c.shown)},
	}
}

func criState(s cri.State) runtime.ContainerState {
	switch s {
	case cri.Created:
		return runtime.ContainerState_CONTAINER_CREATED
	case cri.Running:
		return runtime.ContainerState_CONTAINER_RUNNING
	case cri.Exited:
		return runtime.ContainerState_CONTAINER_EXITED
	default:
		return runtime.ContainerState_CONTAINER_UNKNOWN
	}
}

func criResources(r cri.Resources) *runtime.LinuxContainerResources {
	return &runtime.LinuxContainerResources{
		CpuShares: int64(r.Shares), CpuQuota: r.Quota, CpuPeriod: r.Period, CpusetCpus: r.CPUs, CpusetMems: r.Mems,
	}
}

func (c *container) info() map[string]string {
	if c.infoText != nil {
		return map[string]string{"info": *c.infoText}
	}
	spec := ociSpec(c.path, c.recorded, nil)
	spec["process"] = map[string]any{"env": c.env}
	return document(map[string]any{
		"sandboxID":   c.pod.id,
		"pid":         max(c.pid, c.exitedPID),
		"runtimeSpec": spec,
	})
}

// info returns the verbose info of the pod. containerd adds the configuration to the spec, CRI-O
// to the annotations of the spec.
func (p *pod) info(c RuntimeConfig) map[string]string {
	if p.infoText != nil {
		return map[string]string{"info": *p.infoText}
	}
	sandbox := cri.Resources{Shares: 2}
	if c.Flavor == Containerd {
		doc := map[string]any{
			"pid":         p.pid,
			"config":      map[string]any{"annotations": p.Annotations, "linux": map[string]any{"cgroup_parent": p.parent, "resources": criResources(p.Resources)}},
			"runtimeSpec": ociSpec(p.path, sandbox, nil),
		}
		if p.resized != nil {
			doc["resources"] = map[string]any{"linux": criResources(*p.resized)}
		}
		return document(doc)
	}
	annotations := maps.Clone(p.Annotations)
	if annotations == nil {
		annotations = make(map[string]string)
	}
	annotations["io.kubernetes.cri-o.CgroupParent"] = p.parent
	annotations["io.kubernetes.cri-o.PodLinuxResources"] = document(criResources(p.Resources))["info"]
	return document(map[string]any{
		"image":       "pause",
		"pid":         p.pid,
		"runtimeSpec": ociSpec(p.path, sandbox, annotations),
	})
}

func ociSpec(cgroupsPath string, r cri.Resources, annotations map[string]string) map[string]any {
	cpu := map[string]any{}
	if r.Shares != 0 {
		cpu["shares"] = r.Shares
	}
	if r.Quota != 0 {
		cpu["quota"] = r.Quota
	}
	if r.Period != 0 {
		cpu["period"] = r.Period
	}
	if r.CPUs != "" {
		cpu["cpus"] = r.CPUs
	}
	if r.Mems != "" {
		cpu["mems"] = r.Mems
	}
	return map[string]any{
		"ociVersion":  "1.2.1",
		"annotations": annotations,
		"linux":       map[string]any{"cgroupsPath": cgroupsPath, "resources": map[string]any{"cpu": cpu}},
	}
}
