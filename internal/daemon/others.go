package daemon

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/managers"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// # Other managers
//
// Some containers another manager of CPUs places: CRI-O's configuration says which
// (internal/managers), and a container that comes to NRI with a cpuset has it from
// another plugin, since the kubelet asks for none. Marking them in the planner's input
// is all that is done about it here: the plan has no targets for them, and what has no
// target is neither written nor watched nor repaired (pkg/pools, foreign.go).

// others is what is known of other managers.
type others struct {
	crio managers.CRIO
	// told are the claims that the log has.
	told map[string]bool
}

// codeOtherManager is the code of managers that have appeared although the
// configuration wants none beside cpupoold.
const codeOtherManager pools.Code = pools.CodeOtherManager

// readManagers reads what CRI-O is told to do.
func readManagers() managers.CRIO { return managers.ReadCRIO(os.DirFS("/")) }

// learn takes over what a listing has read. What was read of a file that cannot be
// understood now may still be in force. A container that CRI-O has placed stays so: its
// cpuset is written when it is made, and not taken back. A file may also be missing for
// no longer than it takes to replace it.
func (o *others) learn(crio managers.CRIO, m *model) {
	for _, e := range m.containers {
		if pod := m.pods[e.container.PodID]; pod != nil {
			if claim, is := o.configured(pod, e); is {
				e.claimed = claim
			}
		}
	}
	if len(crio.Unreadable) == 0 || len(o.crio.Workloads)+len(o.crio.Handlers) == 0 {
		o.crio = crio
	} else {
		o.crio.Unreadable = crio.Unreadable
	}
}

// byPlugin is how the plugin of NRI is called that has given a container its CPUs: NRI
// tells its peers no names. A kubelet that has become static since the daemon's start
// looks the same from here.
const byPlugin = "another NRI plugin or a static kubelet"

// withoutPlugin is what to do about either.
const withoutPlugin = "remove the plugin, or set otherManagers.nriPlugins: standDown; if it is the kubelet, give that cpuManagerPolicy: none, or set guaranteed.exclusive: kubelet and restart the daemon"

// configured says whether CRI-O places a container, as its files are now.
func (o *others) configured(pod *podEntry, e *containerEntry) (managers.Claim, bool) {
	return o.crio.Claim(managers.Container{
		Name: e.container.Name, Annotations: pod.pod.Annotations, Handler: pod.pod.RuntimeHandler,
		WholeCPUs: pod.qos == pools.QoSGuaranteed && exclusiveCPUs(asked(e.container)) > 0,
	})
}

// claim says who else places a container, or has placed it.
func (o *others) claim(pod *podEntry, e *containerEntry) (managers.Claim, bool) {
	claim, is := o.configured(pod, e)
	switch {
	case is:
		return claim, true
	case e.claimed.Kind != "":
		return e.claimed, true
	case e.foreign:
		return managers.Claim{Kind: managers.NRIPlugins, By: byPlugin}, true
	}
	return managers.Claim{}, false
}

// mark finds the containers of others among pods.
func (o *others) mark(m *model, pods []pools.Pod, online cpuset.Set, read func(cgroup.Path) (cgroup.State, error)) {
	for i := range pods {
		for j := range pods[i].Containers {
			ctr := &pods[i].Containers[j]
			e := m.containers[ctr.ID]
			if e == nil || m.pods[e.container.PodID] == nil {
				continue
			}
			if claim, is := o.claim(m.pods[e.container.PodID], e); is {
				ctr.Foreign = e.foreignBy(claim, online, read)
			}
		}
	}
}

// foreignBy is where the container is. One that may run everywhere has no CPUs that
// others could keep off.
func (e *containerEntry) foreignBy(claim managers.Claim, online cpuset.Set, read func(cgroup.Path) (cgroup.State, error)) *pools.Foreign {
	f := &pools.Foreign{Manager: claim.By, CPUs: e.recorded, Alone: claim.Alone}
	if st, err := read(e.path); err == nil {
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

// leaves says that a container is another manager's.
func (l *loop) leaves(e *containerEntry) bool {
	pod := l.model.pods[e.container.PodID]
	if pod == nil {
		return false
	}
	_, is := l.others.claim(pod, e)
	return is
}

// leavesPod says that containers of a pod may be another manager's: what appears in its
// slice is left alone until the runtime has told what it is. So is what appears in that
// of a pod that is not known yet, where it may be one of those: CRI-O writes a cpuset
// once, and one that is written over in between is lost.
func (l *loop) leavesPod(slice cgroup.Path) bool {
	for _, pod := range l.model.pods {
		if pod.slice != slice {
			continue
		}
		names := []string{""}
		for key := range pod.pod.Annotations {
			_, name, _ := strings.Cut(key, "/")
			names = append(names, name) // of a container, maybe
		}
		return slices.ContainsFunc(names, func(name string) bool {
			_, is := l.others.claim(pod, &containerEntry{container: cri.Container{Name: name, Requested: cri.Resources{Shares: sharesOfOne}}})
			return is
		})
	}
	return l.others.crio.Places()
}

// leftPaths are the cgroups of containers that are left to others.
func (l *loop) leftPaths() map[cgroup.Path]bool {
	all := make(map[cgroup.Path]bool)
	for _, e := range l.model.containers {
		if l.leaves(e) {
			all[e.path] = true
		}
	}
	return all
}

// leftToPlugins are those of them of which nothing but NRI tells.
func (m *model) leftToPlugins() []left {
	var all []left
	for id, e := range m.containers {
		if e.foreign && e.container.State != cri.Exited {
			k := m.keyOf(e)
			all = append(all, left{k.PodUID, k.Container, id})
		}
	}
	slices.SortFunc(all, func(a, b left) int {
		return cmp.Or(strings.Compare(a.PodUID, b.PodUID), strings.Compare(a.Container, b.Container), strings.Compare(a.ID, b.ID))
	})
	return all
}

// recall marks the containers that were left to plugins before the daemon's restart. One
// that has taken the place of such a one meanwhile is another, as far as there are IDs.
func (m *model) recall(all []left) {
	for id, e := range m.containers {
		k := m.keyOf(e)
		e.foreign = e.foreign || slices.ContainsFunc(all, func(l left) bool {
			return l.ID == id || l.ID == "" && l.PodUID == k.PodUID && l.Container == k.Container
		})
	}
}

// sharesOfOne are the CFS shares of one CPU.
const sharesOfOne = 1024

// stance is what the configuration says about a manager.
func (s *settings) stance(k managers.Kind) config.Stance {
	switch c := s.config.OtherManagers; k {
	case managers.CRIOWorkloads:
		return c.CRIOWorkloads
	case managers.CRIOHighPerformance:
		return c.CRIOHighPerformance
	default:
		return c.NRIPlugins
	}
}

// noteOthers tells of the containers that are left to others, each once.
func (l *loop) noteOthers() {
	now := make(map[string]bool)
	for id, e := range l.model.containers {
		pod := l.model.pods[e.container.PodID]
		if pod == nil {
			continue
		}
		if claim, is := l.others.claim(pod, e); is {
			if now[id] = true; !l.others.told[id] {
				l.log.Info("left to another manager of CPUs", "pod", pod.name(), "container", e.container.Name, "container_id", id, "manager", claim.By)
			}
		}
	}
	l.others.told = now
}

// otherProblems are the managers that have appeared while the daemon runs, and that it
// would not have started beside. It stands down for their containers all the same: two
// that place one container undo each other's work for as long as both run.
func (l *loop) otherProblems() []pools.Problem {
	counts, left := make(map[managers.Claim]int), make(map[managers.Claim]int)
	for _, e := range l.model.containers {
		pod := l.model.pods[e.container.PodID]
		if pod == nil || e.container.State == cri.Exited {
			continue
		}
		if claim, is := l.others.claim(pod, e); is && l.settings.stance(claim.Kind) == config.StanceRefuse {
			if _, now := l.others.configured(pod, e); now || claim.Kind == managers.NRIPlugins {
				counts[claim]++
			} else {
				left[claim]++
			}
		}
	}
	var all []pools.Problem
	for claim, n := range left {
		all = append(all, pools.Problem{Reason: pools.Reason{Code: codeOtherManager, Text: fmt.Sprintf(
			"%s is configured no more, and has placed containers that still run (%d at the moment): they stay where they are until they end. Restart them, or the daemon, which then places them",
			claim.By, n)}})
	}
	for claim, n := range counts {
		remedy := fmt.Sprintf("The daemon will not start again beside it: remove it, or set otherManagers.%s: standDown", claim.Kind)
		if claim.Kind == managers.NRIPlugins {
			remedy = "Beside one that it knows the daemon will not start again: " + withoutPlugin
		}
		all = append(all, pools.Problem{Reason: pools.Reason{Code: codeOtherManager, Text: fmt.Sprintf(
			"%s places containers, too (%d at the moment): they are left to it. %s", claim.By, n, remedy)}})
	}
	for _, f := range l.others.crio.Unreadable {
		all = append(all, pools.Problem{Reason: pools.Reason{Code: codeOtherManager, Text: fmt.Sprintf(
			"%s cannot be understood, so it is not certain which containers CRI-O places: %s: repair the file", f.Name, f.Err)}})
	}
	slices.SortFunc(all, func(a, b pools.Problem) int { return strings.Compare(a.Text, b.Text) })
	return all
}
