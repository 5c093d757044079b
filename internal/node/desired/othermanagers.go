package desired

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/managers"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/nri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// OtherManagers knows the containers that another CPU manager places. CRI-O's configuration
// names some of them. The cgroup of a pod shows whether it is in the kubelet's system partition.
// A container that comes to NRI with a cpuset has it from another plugin, because the kubelet
// requests none. OtherManagers marks these containers in the planner's
// input. The plan then has no target for them, and the daemon writes no file without a target.
type OtherManagers struct {
	crio   managers.CRIO
	system systemPartition
	noted  map[string]bool // containers that NewPlacings has returned
}

// byPlugin names an NRI plugin that has given a container its CPUs: NRI does not tell a
// plugin the names of the others. A kubelet that became static after the start of the daemon
// cannot be distinguished from a plugin.
const byPlugin = "another NRI plugin or a static kubelet"

const pluginRemedy = "remove the plugin, or set otherManagers.nriPlugins: standDown; if it is the kubelet, give that cpuManagerPolicy: none, or set guaranteed.exclusive: kubelet and restart the daemon"

// NewOtherManagers returns OtherManagers with a configuration of CRI-O.
func NewOtherManagers(crio managers.CRIO) OtherManagers { return OtherManagers{crio: crio} }

// Learn replaces the configuration of CRI-O. A container that CRI-O has placed keeps its
// placing, because CRI-O writes a cpuset once, when it creates the container. If a file cannot
// be parsed, the earlier configuration stays in force.
func (o *OtherManagers) Learn(crio managers.CRIO, m *inventory.Objects) {
	for c := range m.Containers() {
		if pod := c.Pod(); pod != nil {
			if placing, is := o.configured(pod, c); is {
				c.NotePlacing(placing)
			}
		}
	}
	o.system.absent = ""
	if len(crio.Unreadable) > 0 && len(o.crio.Workloads)+len(o.crio.Handlers) > 0 {
		unreadable := crio.Unreadable
		crio = o.crio
		crio.Unreadable = unreadable
	}
	o.crio = crio
}

// configured returns CRI-O's placement of a container by its current configuration.
func (o *OtherManagers) configured(pod *inventory.Pod, c *inventory.Container) (managers.Placing, bool) {
	return o.crio.Placing(ofCRIO(pod, c, pod.QoS == pools.QoSGuaranteed && c.Request().ExclusiveCPUs() > 0))
}

// ofCRIO returns a container as the rules of CRI-O's configuration need it.
func ofCRIO(pod *inventory.Pod, c *inventory.Container, wholeCPUs bool) managers.Container {
	return managers.Container{Name: c.Container.Name, Annotations: pod.Pod.Annotations, Handler: pod.Pod.RuntimeHandler, WholeCPUs: wholeCPUs}
}

// placing returns the placement by the manager that places a container, or has placed it.
func (o *OtherManagers) placing(pod *inventory.Pod, c *inventory.Container) (managers.Placing, bool) {
	if pod == nil {
		return managers.Placing{}, false
	}
	if o.system.places(pod.System) {
		return managers.Placing{Kind: managers.SystemPartition, By: bySystemPartition}, true
	}
	if placing, ok := o.configured(pod, c); ok {
		return placing, true
	}
	if placing := c.Placing(); placing.Kind != "" {
		return placing, true
	}
	return managers.Placing{Kind: managers.NRIPlugins, By: byPlugin}, c.IsPlacedElsewhere()
}

// Places reports whether another manager places a container.
func (o *OtherManagers) Places(c *inventory.Container) bool {
	_, ok := o.placing(c.Pod(), c)
	return ok
}

// MayPlace reports whether another manager may place containers of the pod with the slice.
// The daemon does not write a cgroup that appears there before the runtime describes its
// container. CRI-O writes a cpuset once, and an own write would replace it. An unknown pod
// may be one of these pods.
func (o *OtherManagers) MayPlace(m *inventory.Objects, slice cgroup.Path) bool {
	const sharesPerCPU = 1024
	if root, inside := slice.SystemPartition(); inside && o.system.places(root) {
		return true
	}
	for pod := range m.Pods() {
		if pod.Slice != slice {
			continue
		}
		names := []string{""}
		for key := range pod.Pod.Annotations {
			_, name, _ := strings.Cut(key, "/")
			names = append(names, name) // may be the name of a container
		}
		return slices.ContainsFunc(names, func(name string) bool {
			_, ok := o.placing(pod, &inventory.Container{Container: cri.Container{Name: name, Requested: cri.Resources{Shares: sharesPerCPU}}})
			return ok
		})
	}
	return o.crio.Places()
}

// Cgroups returns the cgroups of containers that other managers place.
func (o *OtherManagers) Cgroups(m *inventory.Objects) map[cgroup.Path]bool {
	all := make(map[cgroup.Path]bool)
	for c := range m.Containers() {
		if o.Places(c) {
			all[c.Path] = true
		}
	}
	return all
}

// Mark sets the CPUs of containers that other managers place in the planner's input.
func (o *OtherManagers) Mark(m *inventory.Objects, pods []pools.Pod, s *Settings, read func(cgroup.Path) (cgroup.State, error)) {
	online := s.Topology.Online
	o.system.stance, o.system.read = s.Config.SystemPartition, read
	clear(o.system.fresh) // the next question about a root reads it again
	for i := range pods {
		for j := range pods[i].Containers {
			ctr := &pods[i].Containers[j]
			c := m.Container(ctr.ID)
			if c == nil {
				if pod := m.Pod(ctr.ID); pod != nil && ctr.Kind == pools.Infra && o.system.places(pod.System) {
					ctr.Foreign = o.system.foreign(pod.System, online)
				}
				continue
			}
			pod := c.Pod()
			placing, ok := o.placing(pod, c)
			if !ok {
				continue
			}
			// A container that is a partition has its CPUs alone, also in the system partition.
			if ctr.Foreign = foreignBy(c, placing, online, read); placing.Kind == managers.SystemPartition && !ctr.Foreign.Alone {
				ctr.Foreign = o.system.foreign(pod.System, online)
			}
		}
	}
}

// foreignBy returns the CPUs of another manager's container. A container on all CPUs holds none.
func foreignBy(c *inventory.Container, placing managers.Placing, online cpuset.Set, read func(cgroup.Path) (cgroup.State, error)) *pools.Foreign {
	f := &pools.Foreign{Manager: placing.By, CPUs: c.Recorded, Alone: placing.Alone}
	if st, err := read(c.Path); err == nil {
		if f.CPUs, f.Runs = st.CPUs.Intersection(st.Effective), st.Effective; st.Partition.Valid() {
			f.CPUs, f.Alone = st.Effective, true
		}
	}
	if f.CPUs = f.CPUs.Intersection(online); online.IsSubsetOf(f.CPUs) {
		f.CPUs = cpuset.Set{}
	}
	if !f.CPUs.IsEmpty() {
		f.Runs = cpuset.Set{}
	}
	return f
}

// NewPlacings returns the containers of other managers that no earlier call has returned.
func (o *OtherManagers) NewPlacings(m *inventory.Objects) iter.Seq2[*inventory.Container, managers.Placing] {
	return func(yield func(*inventory.Container, managers.Placing) bool) {
		before := o.noted
		o.noted = make(map[string]bool)
		for c := range m.Containers() {
			if placing, ok := o.placing(c.Pod(), c); ok {
				o.noted[c.Container.ID] = true
				if !before[c.Container.ID] && !yield(c, placing) {
					return
				}
			}
		}
	}
}

// Problems returns the managers that appeared while the daemon runs although the
// configuration refuses them. The daemon does not place their containers: two managers of
// one container would overwrite each other's cpuset for as long as both run.
func (o *OtherManagers) Problems(m *inventory.Objects, s *Settings) []pools.Problem {
	current, former := make(map[managers.Placing]int), make(map[managers.Placing]int)
	for c := range m.Containers() {
		if c.Container.State == cri.Exited {
			continue
		}
		pod := c.Pod()
		if placing, ok := o.placing(pod, c); ok && s.stance(placing.Kind) == config.StanceRefuse {
			if _, now := o.configured(pod, c); now || placing.Kind == managers.NRIPlugins {
				current[placing]++
			} else {
				former[placing]++
			}
		}
	}
	var all []pools.Problem
	report := func(format string, a ...any) {
		all = append(all, pools.Problem{Reason: pools.Reason{Code: pools.CodeOtherManager, Text: fmt.Sprintf(format, a...)}})
	}
	for placing, n := range former {
		report("%s is no longer configured, and has placed containers that still run (%d at the moment): they keep their CPUs until they end. Restart them, or the daemon, which then places them",
			placing.By, n)
	}
	for placing, n := range current {
		remedy := fmt.Sprintf("The daemon will not start again with it: remove it, or set otherManagers.%s: standDown", placing.Kind)
		if placing.Kind == managers.NRIPlugins {
			remedy = "With a manager that it knows the daemon will not start again: " + pluginRemedy
		}
		report("%s places containers, too (%d at the moment): the daemon does not place them. %s", placing.By, n, remedy)
	}
	for _, f := range o.crio.Unreadable {
		report("%s cannot be parsed, so the containers that CRI-O places are not known for certain: %s: repair the file", f.Name, f.Err)
	}
	all = append(all, o.systemProblems(m, s)...)
	slices.SortFunc(all, func(a, b pools.Problem) int { return strings.Compare(a.Text, b.Text) })
	return all
}

func (s *Settings) stance(k managers.Kind) config.Stance {
	switch c := s.Config.OtherManagers; k {
	case managers.CRIOWorkloads:
		return c.CRIOWorkloads
	case managers.CRIOHighPerformance:
		return c.CRIOHighPerformance
	case managers.SystemPartition:
		return config.StanceStandDown
	default:
		return c.NRIPlugins
	}
}

// codeOtherNRI is the code of the problem that another runtime listens on the NRI socket.
const codeOtherNRI pools.Code = "NRIOtherRuntime"

// codeClaimsNRI is the code of the problem that claims are prepared and NRI is not connected.
const codeClaimsNRI pools.Code = "ClaimsWithoutNRI"

// ClaimsWithoutNRI returns a problem if claims are prepared, and the runtime does not report which
// containers use them. err is the reason why NRI is not connected.
func (s *Settings) ClaimsWithoutNRI(claims int, err error) []pools.Problem {
	if claims == 0 {
		return nil
	}
	because := ""
	if err != nil {
		because = " (" + err.Error() + ")"
	}
	return []pools.Problem{{Reason: pools.Reason{Code: codeClaimsNRI, Text: fmt.Sprintf(
		"%d ResourceClaims have CPUs, and NRI is not connected%s: containers that are created now run in the shared pool instead of on the CPUs of their claims; "+
			"enable NRI in the container runtime, and check nriSocket", claims, because)}}}
}

// NRIProblems returns a problem if err is that another runtime listens on the NRI socket.
func (s *Settings) NRIProblems(err error) []pools.Problem {
	if !errors.Is(err, nri.ErrOtherRuntime) {
		return nil
	}
	return []pools.Problem{{Reason: pools.Reason{Code: codeOtherNRI, Text: fmt.Sprintf(
		"another container runtime listens on the NRI socket %s: containers begin on all CPUs, and are placed when their runtime reports them; "+
			"give the other runtime another socket (containerd: socket_path of io.containerd.nri.v1.nri; CRI-O: nri_listen), restart it and then the runtime of the pods",
		s.Config.NRISocket)}}}
}
