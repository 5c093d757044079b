package desired

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// The codes of problems with the kubelet's system partition.
const (
	codeSystemAnnotation pools.Code = "SystemPartitionAnnotation" // a pod in it has annotations for the daemon
	codeSystemOverlap    pools.Code = "SystemPartitionOverlap"    // it has CPUs of the guaranteed pool
)

const bySystemPartition = "the kubelet's system partition"

// systemPartition knows the kubelet's system partition (KEP-5894, planned for Kubernetes 1.38):
// a cgroup with the pods of some namespaces, to which the kubelet may give a cpuset. The kernel
// limits the pods in it to that cpuset. A container in it cannot keep other CPUs.
type systemPartition struct {
	stance config.SystemPartition
	read   func(cgroup.Path) (cgroup.State, error)
	roots  map[cgroup.Path]cgroup.State // as last read
	fresh  map[cgroup.Path]bool         // roots that were read since the last call of renew
	absent cgroup.Path                  // the root that was missing at the last listing
}

// at returns the last reading of a root. It reports whether the root exists.
func (p *systemPartition) at(root cgroup.Path) (st cgroup.State, exists bool) {
	if !p.fresh[root] && p.read != nil {
		st, err := p.read(root)
		switch {
		case err == nil:
			if p.roots == nil {
				p.roots, p.fresh = make(map[cgroup.Path]cgroup.State), make(map[cgroup.Path]bool)
			}
			p.roots[root], p.fresh[root] = st, true
		case errors.Is(err, cgroup.ErrGone):
			delete(p.roots, root)
		}
	}
	st, exists = p.roots[root]
	return st, exists
}

// places reports whether the kubelet places pods below a root; always before the first renew.
func (p *systemPartition) places(root cgroup.Path) bool {
	if root == "" || p.read == nil || p.stance == config.SystemPartitionStandDown {
		return root != ""
	}
	st, _ := p.at(root)
	return !st.CPUs.IsEmpty()
}

// foreign returns the CPUs of pods below a root. Without a cpuset they hold none; the effective CPUs
// lack partitions of owners, and do not show this.
func (p *systemPartition) foreign(root cgroup.Path, online cpuset.Set) *pools.Foreign {
	st, _ := p.at(root)
	f := &pools.Foreign{Manager: bySystemPartition, CPUs: st.Effective.Intersection(online)}
	if online.IsSubsetOf(st.CPUs) || st.CPUs.IsEmpty() {
		f.CPUs, f.Runs = cpuset.Set{}, f.CPUs
	}
	return f
}

// NoteWrite reports whether p is the root of the system partition, which is new or changed.
func (o *OtherManagers) NoteWrite(p cgroup.Path) bool {
	_, known := o.system.roots[p]
	if !known && (p == "" || p != o.system.absent) {
		return false
	}
	o.system.absent = ""
	return true
}

// SystemPartition returns the kubelet's system partition, or nil without one.
func (o *OtherManagers) SystemPartition(m *inventory.Objects) *inspect.SystemPartition {
	p := &o.system
	root, inside := systemRoot(m)
	if root == "" || !inside && root == p.absent {
		return nil
	}
	st, exists := p.at(root)
	if !exists {
		p.absent = root
		return nil
	}
	p.absent = ""
	return &inspect.SystemPartition{Cgroup: string(root), CPUs: st.CPUs, Effective: st.Effective, StandsDown: p.places(root)}
}

// SystemCPUs returns the CPUs that no new owner gets: the cpuset of the system partition, if
// the daemon does not place its pods. The result is empty if the cpuset contains all CPUs.
func (o *OtherManagers) SystemCPUs(m *inventory.Objects, s *Settings) cpuset.Set {
	p := o.SystemPartition(m)
	if p == nil || !p.StandsDown || p.CPUs.IsEmpty() || s.Topology.Online.IsSubsetOf(p.CPUs) {
		return cpuset.Set{}
	}
	return p.Effective
}

// systemProblems reports guaranteed CPUs of the partition, and pods with unused annotations.
func (o *OtherManagers) systemProblems(m *inventory.Objects, s *Settings) []pools.Problem {
	p := o.SystemPartition(m)
	if p == nil || !p.StandsDown {
		return nil
	}
	var all []pools.Problem
	if both := o.SystemCPUs(m, s).Intersection(s.ownPools()); !both.IsEmpty() {
		all = append(all, pools.Problem{Unit: "kubelet", Reason: pools.Reason{Code: codeSystemOverlap, Text: fmt.Sprintf(
			"its system partition %s has CPUs %s of the guaranteed pool: no new owner gets these CPUs; give the two different CPUs, or remove systemPartition.cpuset from the kubelet's configuration",
			p.Cgroup, both)}})
	}
	for pod := range m.Pods() {
		if !o.system.places(pod.System) {
			continue
		}
		var keys []string
		for key := range pod.Annotations() {
			if pools.ReadsAnnotation(s.Names, key) && !strings.HasPrefix(key, "kubernetes.io/") {
				keys = append(keys, key)
			}
		}
		if len(keys) == 0 {
			continue
		}
		slices.Sort(keys)
		all = append(all, pools.Problem{PodUID: pod.UID, Pod: pod.Name(), Reason: pools.Reason{Code: codeSystemAnnotation, Text: fmt.Sprintf(
			"%s: not followed, because the pod is in the kubelet's system partition %s, which systemPartition: %s leaves to the kubelet; remove the annotation, or %s",
			strings.Join(keys, ", "), pod.System, o.system.stance, o.system.remedy())}})
	}
	return all
}

func (p *systemPartition) remedy() string {
	if p.stance == config.SystemPartitionStandDown {
		return "set systemPartition: auto, and no systemPartition.cpuset in the kubelet's configuration"
	}
	return "take the namespace or the cpuset out of systemPartition in the kubelet's configuration"
}

// systemRoot returns the root of the kubelet's system partition, which need not exist,
// and whether a pod is in it. Without pods root is "".
func systemRoot(m *inventory.Objects) (root cgroup.Path, inside bool) {
	var slice cgroup.Path
	for e := range m.Pods() {
		switch {
		case e.System != "" && (root == "" || e.System < root):
			root = e.System
		case e.Slice != "" && (slice == "" || e.Slice < slice):
			slice = e.Slice
		}
	}
	if root != "" {
		return root, true
	}
	return slice.SystemPartition()
}
