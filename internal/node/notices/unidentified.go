package notices

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Unidentified holds the cgroups of containers that the runtime has not reported yet, because it
// reports containers after their entrypoint has started. They wait in the shared pool. The daemon
// writes only files: a systemd property that changes while the OCI runtime creates the scope can
// prevent the start. It never limits pods and the slices above them.
type Unidentified struct {
	Sources
	all map[cgroup.Path]found
}

// found is the cgroup of an unidentified container.
type found struct {
	id   string
	cpus cpuset.Set // its target
}

// Track records a cgroup in the slice of a pod. It returns the ID of its container or sandbox if
// the container is unidentified.
func (u *Unidentified) Track(p cgroup.Path) (id string) {
	id = p.ContainerID(u.Host.Driver)
	if id == "" || u.Host.Observes || u.Host.CPUManager != nil || // the kubelet's CPU manager places it
		u.Host.Runtime == nil || u.Objects.Container(id) != nil || u.Objects.Pod(id) != nil || u.Has(p) || u.Others.MayPlace(u.Objects, p.Parent()) {
		return ""
	}
	u.all[p] = found{id: id}
	return id
}

// Limit adds targets for the cgroups to want, and drops cgroups that are targets now. A cgroup with
// a cpuset has it from its specification, and keeps it unless the cpuset contains exclusive CPUs.
func (u *Unidentified) Limit(shared, owned cpuset.Set, want []cgroup.Target) []cgroup.Target {
	for _, t := range want {
		if u.Has(t.Path) {
			delete(u.all, t.Path)
			u.Cache.Forget(t.Path) // its record may be known now
		}
	}
	maps.DeleteFunc(u.all, func(_ cgroup.Path, f found) bool {
		e := u.Objects.Container(f.id)
		return e != nil && u.Others.Places(e) // it has no target
	})
	shared = shared.Difference(owned)
	if shared.IsEmpty() {
		return want
	}
	var more []cgroup.Target
	for p, f := range u.all {
		st, err := u.Cache.State(p)
		if errors.Is(err, cgroup.ErrGone) {
			delete(u.all, p)
			continue
		}
		if err != nil || !st.HasCPUSet {
			continue // there is no file to write
		}
		if !st.CPUs.IsEmpty() && !st.CPUs.Overlaps(owned) && !u.Originals.Has(p, cgroup.FileCPUs) {
			continue
		}
		f.cpus = shared
		u.all[p] = f
		more = append(more, cgroup.Target{Path: p, CPUs: shared, Reason: "the runtime has not reported the container yet"})
	}
	slices.SortFunc(more, func(a, b cgroup.Target) int { return strings.Compare(string(a.Path), string(b.Path)) })
	return append(want, more...)
}

// Forget drops a cgroup that is removed.
func (u *Unidentified) Forget(p cgroup.Path) { delete(u.all, p) }

// Has reports whether the container of a cgroup is unidentified.
func (u *Unidentified) Has(p cgroup.Path) bool {
	_, ok := u.all[p]
	return ok
}

// IsEmpty reports whether no container is unidentified.
func (u *Unidentified) IsEmpty() bool { return len(u.all) == 0 }

// All returns the cgroups with the CPUs of their targets, nil without cgroups: each pass calls it.
func (u *Unidentified) All() map[cgroup.Path]cpuset.Set {
	if u.IsEmpty() {
		return nil
	}
	all := make(map[cgroup.Path]cpuset.Set, len(u.all))
	for p, f := range u.all {
		all[p] = f.cpus
	}
	return all
}
