package desired

import (
	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/managers"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// # Other managers
//
// Some containers another manager of CPUs places: CRI-O's configuration says which
// (internal/node/managers), and a container that comes to NRI with a cpuset has it from
// another plugin, since the kubelet asks for none. Marking them in the planner's input
// is all that is done about it here: the plan has no targets for them, and what has no
// target is neither written nor watched nor repaired (pkg/pools, foreign.go).

// OtherManagers is what is known of other managers.
type OtherManagers struct {
	Crio managers.CRIO
	// Told are the claims that the log has.
	Told map[string]bool
}

// CodeOtherManager is the code of managers that have appeared although the
// configuration wants none beside cpupoold.
const CodeOtherManager pools.Code = pools.CodeOtherManager

// Learn takes over what a listing has read. What was read of a file that cannot be
// understood now may still be in force. A container that CRI-O has placed stays so: its
// cpuset is written when it is made, and not taken back. A file may also be missing for
// no longer than it takes to replace it.
func (o *OtherManagers) Learn(crio managers.CRIO, m *inventory.Inventory) {
	m.NoteClaims(o.Configured)
	if len(crio.Unreadable) == 0 || len(o.Crio.Workloads)+len(o.Crio.Handlers) == 0 {
		o.Crio = crio
	} else {
		o.Crio.Unreadable = crio.Unreadable
	}
}

// byPlugin is how the plugin of NRI is called that has given a container its CPUs: NRI
// tells its peers no names. A kubelet that has become static since the daemon's start
// looks the same from here.
const byPlugin = "another NRI plugin or a static kubelet"

// WithoutPlugin is what to do about either.
const WithoutPlugin = "remove the plugin, or set otherManagers.nriPlugins: standDown; if it is the kubelet, give that cpuManagerPolicy: none, or set guaranteed.exclusive: kubelet and restart the daemon"

// Configured says whether CRI-O places a container, as its files are now.
func (o *OtherManagers) Configured(pod *inventory.Pod, e *inventory.Container) (managers.Claim, bool) {
	return o.Crio.Claim(managers.Container{
		Name: e.Container.Name, Annotations: pod.Pod.Annotations, Handler: pod.Pod.RuntimeHandler,
		WholeCPUs: pod.QoS == pools.QoSGuaranteed && e.Request().ExclusiveCPUs() > 0,
	})
}

// Claim says who else places a container, or has placed it.
func (o *OtherManagers) Claim(pod *inventory.Pod, e *inventory.Container) (managers.Claim, bool) {
	claim, is := o.Configured(pod, e)
	switch {
	case is:
		return claim, true
	case e.Claim().Kind != "":
		return e.Claim(), true
	case e.IsPlacedElsewhere():
		return managers.Claim{Kind: managers.NRIPlugins, By: byPlugin}, true
	}
	return managers.Claim{}, false
}

// Mark finds the containers of others among pods.
func (o *OtherManagers) Mark(m *inventory.Inventory, pods []pools.Pod, online cpuset.Set, read func(cgroup.Path) (cgroup.State, error)) {
	for i := range pods {
		for j := range pods[i].Containers {
			ctr := &pods[i].Containers[j]
			e := m.Container(ctr.ID)
			if e == nil || m.PodOf(e) == nil {
				continue
			}
			if claim, is := o.Claim(m.PodOf(e), e); is {
				ctr.Foreign = foreignBy(e, claim, online, read)
			}
		}
	}
}

// foreignBy returns where a container runs that another manager places. A container that
// may run on all CPUs holds none.
func foreignBy(e *inventory.Container, claim managers.Claim, online cpuset.Set, read func(cgroup.Path) (cgroup.State, error)) *pools.Foreign {
	f := &pools.Foreign{Manager: claim.By, CPUs: e.Recorded, Alone: claim.Alone}
	if st, err := read(e.Path); err == nil {
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

// SharesOfOne are the CFS shares of one CPU.
const SharesOfOne = 1024

// Stance is what the configuration says about a manager.
func (s *Settings) Stance(k managers.Kind) config.Stance {
	switch c := s.Config.OtherManagers; k {
	case managers.CRIOWorkloads:
		return c.CRIOWorkloads
	case managers.CRIOHighPerformance:
		return c.CRIOHighPerformance
	default:
		return c.NRIPlugins
	}
}
