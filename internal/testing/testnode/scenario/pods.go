package scenario

import (
	"fmt"
	"strings"

	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Runtime creates, starts and removes pods and containers, and returns the kernel's values about
// them. The effects of a call are complete when it returns.
type Runtime interface {
	RunPod(testnode.PodSpec) (id string, err error)
	StopPod(id string) error
	RemovePod(id string) error
	CreateContainer(podID string, s testnode.ContainerSpec) (id string, err error)
	StartContainer(id string) error
	StopContainer(id string) error
	RemoveContainer(id string) error
	// Resize changes the resources of a container, as the kubelet does.
	Resize(id string, to cri.Resources) error
	// CPUs returns the effective CPUs of a container, or false without processes.
	CPUs(id string) (cpuset.Set, bool)
	// UnitCPUs returns the effective CPUs of a systemd unit, or false without processes.
	UnitCPUs(name string) (cpuset.Set, bool)
}

// Pods replaces the kubelet: it applies the steps about pods and containers. It records the pods,
// and the owners whose CPUs must not change. Use NewPods.
type Pods struct {
	runtime Runtime
	pods    map[string]*livePod
	epoch   int // number of reloads and CPU changes, after which owners may lose CPUs
	plugged int // the epoch of the last change of online CPUs
	owners  map[string]owner
	removed map[string]bool // IDs of pods and containers
	pooled  map[string]bool // IDs of containers that share the CPUs of their pod, at the last Check
	// podCount and refused count the created containers, and the containers that NRI refused.
	made, refused int
}

// refusal is the prefix of the daemon's errors in refused creations.
const refusal = "cpupoold: "

// Created returns the numbers of created and of refused containers.
func (p *Pods) Created() (made, refused int) { return p.made, p.refused }

// livePod is a pod with its containers by name. Exited containers stay in it until they are
// removed.
type livePod struct {
	id         string
	spec       PodSpec
	hasInits   bool // it has init containers, or removed ones
	stopped    bool
	resized    bool // a container has, or will have, other resources
	containers map[string]string
	created    map[string]bool // IDs of containers before their start
	attempts   map[string]uint32
}

// NewPods returns Pods without pods.
func NewPods(r Runtime) *Pods {
	return &Pods{runtime: r, pods: make(map[string]*livePod), owners: make(map[string]owner), removed: make(map[string]bool)}
}

// Do applies a step about a pod or container, and counts reloads. done reports whether the step
// needs no more work of the caller.
func (p *Pods) Do(s Step) (done bool, err error) {
	of := p.pods[s.Pod]
	switch s.Kind {
	case RunPod:
		err = p.run(s.Pod, s.Of)
	case StopPod:
		of.stopped = true
		err = p.runtime.StopPod(of.id)
	case RemovePod:
		delete(p.pods, s.Pod)
		p.removed[of.id] = true
		err = p.runtime.RemovePod(of.id)
	case CreateContainer:
		err = p.create(of, s)
	case StartContainer:
		if id := of.containers[s.Container]; id != "" {
			err = p.runtime.StartContainer(id)
			delete(of.created, id)
		}
	case StopContainer:
		if id := of.containers[s.Container]; p.Runs(id) { // the daemon may have stopped it, as a refusal
			err = p.runtime.StopContainer(id)
		}
	case RemoveContainer:
		id := of.containers[s.Container]
		delete(of.containers, s.Container)
		of.hasInits = true // a removed container may have been an init container
		if id != "" {
			p.removed[id] = true
			err = p.runtime.RemoveContainer(id)
		}
	case ResizeContainer:
		err = p.resize(of, s)
	case PlugCPUs:
		p.epoch++
		p.plugged = p.epoch
		return false, nil
	case Reload:
		p.epoch++
		return false, nil
	default:
		return false, nil
	}
	return true, err
}

func (p *Pods) run(uid string, spec PodSpec) error {
	res := cri.Resources{}
	if spec.Milli > 0 {
		res = ContainerSpec{Milli: spec.Milli}.resources("guaranteed")
	}
	var annotations map[string]string
	if spec.Management {
		annotations = map[string]string{"target.workload.openshift.io/management": `{"effect":"PreferredDuringScheduling"}`}
	}
	if spec.Mixed {
		annotations = map[string]string{"cpu-shared.crio.io/app-0": "enable", "cpu-shared.workload.openshift.io/init-0": "enable"}
	}
	id, err := p.runtime.RunPod(testnode.PodSpec{UID: uid, Namespace: spec.Namespace(), Name: uid, QoS: spec.QoS, Annotations: annotations, Resources: res})
	p.pods[uid] = &livePod{id: id, spec: spec, containers: make(map[string]string), created: make(map[string]bool), attempts: make(map[string]uint32)}
	return err
}

// Namespace returns the namespace of the pod.
func (s PodSpec) Namespace() string {
	if s.Management {
		return "kube-system"
	}
	return "default"
}

// resources returns the resources of a container, as the kubelet computes them.
func (s ContainerSpec) resources(qos string) cri.Resources {
	res := cri.Resources{Shares: uint64(max(s.Milli*1024/1000, 2))}
	if qos == "guaranteed" {
		res.Quota, res.Period = int64(s.Milli)*100, 100_000
	}
	return res
}

// resize resizes a running container. The daemon may refuse more CPUs.
func (p *Pods) resize(of *livePod, s Step) error {
	id := of.containers[s.Container]
	of.resized = true // its next instance has the new resources, too
	if !p.Runs(id) {
		return nil
	}
	err := p.runtime.Resize(id, s.Spec.resources(of.spec.QoS))
	if err != nil && strings.Contains(err.Error(), refusal) {
		p.refused++
		return nil
	}
	key := s.Pod + "/" + s.Container
	if o, has := p.owners[key]; has {
		o.resized = true
		p.owners[key] = o
	}
	return err
}

func (p *Pods) create(of *livePod, s Step) error {
	res := s.Spec.resources(of.spec.QoS)
	of.hasInits = of.hasInits || s.Spec.Init
	id, err := p.runtime.CreateContainer(of.id, testnode.ContainerSpec{Name: s.Container, Attempt: of.attempts[s.Container], Resources: res})
	of.attempts[s.Container]++ // an exited container keeps its name and attempt until its removal
	if err != nil && strings.Contains(err.Error(), refusal) {
		delete(of.containers, s.Container)
		p.refused++
		return nil
	}
	p.made++
	of.containers[s.Container], of.created[id] = id, true
	return err
}

// Runs reports whether a container has been started and has processes.
func (p *Pods) Runs(id string) bool {
	for _, of := range p.pods {
		if of.created[id] {
			return false // some runtimes create the cgroup with a process before the start
		}
	}
	_, runs := p.runtime.CPUs(id)
	return runs
}

// Known returns an error if the plan does not contain the running containers, the existing pods
// and the units.
func (p *Pods) Known(plan pools.Plan) error {
	planned := make(map[string]pools.ContainerState)
	for pod, c := range plan.Containers() {
		planned[c.ID] = c.State
		if p.removed[c.ID] {
			return fmt.Errorf("plan contains %s/%s %s, which was removed", pod.UID, c.Name, c.ID)
		}
	}
	for uid, of := range p.pods {
		if _, there := planned[of.id]; there == of.stopped {
			return fmt.Errorf("plan contains %s: %t", uid, there)
		}
		for name, id := range of.containers {
			state, there := planned[id]
			if p.Runs(id) != (there && state == pools.Running) || of.created[id] && !of.stopped != (there && state == pools.Created) {
				return fmt.Errorf("plan contains %s/%s %s: %t, as %v; it runs: %t", uid, name, id, there, state, p.Runs(id))
			}
		}
	}
	for _, u := range plan.Units {
		if cpus, runs := p.runtime.UnitCPUs(u.Name); runs && !cpus.Equal(u.CPUs) {
			return fmt.Errorf("%s runs on %s; planned is %s", u.Name, cpus, u.CPUs)
		}
	}
	return nil
}
