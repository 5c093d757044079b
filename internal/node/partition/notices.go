package partition

import (
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// # Cached state of partitions
//
// A reading of the partitions reuses the last one, so that a partition costs the same on a node
// with hundreds of pods. The daemon reads these cgroups again:
//
//   - cgroups that a step has written, the partition of the step, and their parents
//   - cgroups that become another partition, or none, and the cgroups in their pods
//   - cgroups with external writes, the cgroups below them, and their siblings in a pod
//   - cgroups with a cpuset.cpus or cpuset.cpus.partition that differs in package kernelstate
//   - in each pass, cgroups without a watch: the slices of the host
//   - all cgroups after RecheckAll
//
// An exclusive list that is unknown does no harm: the kernel refuses CPUs that are not
// exclusive. The same happens with a list that is written right after a reading.

// forget drops cached state around a write. Partitions lose CPUs through lists of parents, and up to
// kernel 6.19 through cpuset.cpus of siblings.
func (p *Partitions) forget(at cgroup.Path) {
	p.Memory.Forget(at)
	p.Memory.ForgetIn(at)
	if at.Parent().InPod() {
		p.Memory.ForgetIn(at.Parent())
	}
}

// keepWatched drops the cached state of cgroups without a watch.
func (p *Partitions) keepWatched(w *cgroup.Watcher) {
	if w == nil {
		p.Memory.ForgetIn("")
		return
	}
	p.Memory.Keep(func(at cgroup.Path) bool {
		files, _ := w.Reports(at)
		return files
	}, func(at cgroup.Path) bool {
		_, children := w.Reports(at)
		return children
	})
}

// RecheckAll schedules a reading of all partitions.
func (p *Partitions) RecheckAll() {
	p.stale = true
	p.Memory.ForgetIn("")
}

// Recheck schedules a reading of the partitions that a write to a cgroup may have broken.
func (p *Partitions) Recheck(at cgroup.Path) {
	p.stale = true
	p.forget(at)
}

// RecheckNear calls Recheck if a write can break a partition: here, or up to 6.19 at a sibling.
func (p *Partitions) RecheckNear(at cgroup.Path) {
	near := p.inForce(at)
	for q := range p.last {
		near = near || !p.Host.Kernel.Settled && p.inForce(q) && q.Parent() == at.Parent()
	}
	if near {
		p.Recheck(at)
	}
}

// NoteState takes note of the state of a cgroup that was read after a notice. It reports whether
// the cgroup was a partition of the wanted type at the last scan, and is none now.
func (p *Partitions) NoteState(at cgroup.Path, is cgroup.PartitionState) (ended bool) {
	if !p.inForce(at) || is.Is(p.last[at].Type) {
		return false
	}
	p.Recheck(at)
	return true
}

// NoteWrite takes note of a write to a file of a cgroup, which may be an own write; without a
// name the cgroup has a new watch. It reports whether the write is external and concerns
// partitions.
func (p *Partitions) NoteWrite(at cgroup.Path, name string) bool {
	switch {
	case name == "":
		p.Memory.Forget(at)
		return false
	case name == cgroup.FileExclusive:
	case (name == cgroup.FileCPUs || name == cgroup.FilePartition) && !p.Cache.Has(at): // NoteState handles known cgroups
	default:
		return false
	}
	same, known := p.Memory.Same(at)
	external := !same && p.Enabled() && (known || name == cgroup.FileExclusive)
	if !same {
		p.forget(at)
		p.stale = p.stale || external
	}
	if at == cgroup.Parking && name == cgroup.FilePartition && p.inForce(at) && !p.isParked() {
		p.Recheck(at)
		return true
	}
	return external
}

// Unblocks takes note of a removed cgroup. It reports whether the cgroup may have been the reason
// for the refusal of a partition next to it, or in a pod next to it.
func (p *Partitions) Unblocks(gone cgroup.Path) bool {
	for at := range p.last {
		if !p.inForce(at) && strings.HasPrefix(string(at), string(gone.Parent())+"/") {
			p.stale = true
			return true
		}
	}
	return false
}
