package daemon

import (
	"github.com/cpupoold/cpupoold/internal/node/partition"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// # Cached state of partitions
//
// A reading of the partitions reuses the last one, so that a partition costs the same on a node
// with hundreds of pods. The watcher reports external writes, and cgroups that appear and
// disappear. The daemon reads these cgroups again:
//
//   - cgroups that a step has written, the partition of the step, and their parents
//   - cgroups that become another partition, or none, and the cgroups in their pods
//   - cgroups with external writes, the cgroups below them, and their siblings in a pod
//   - cgroups whose cpuset.cpus or cpuset.cpus.partition differ in package kernelstate
//   - in each pass, cgroups without a watch: the slices of the host
//   - all cgroups, with each resync, after a new watcher or lost notices, and after a change of
//     the online CPUs or a reload of systemd
//
// An exclusive list that is unknown does no harm: the kernel refuses CPUs that are not
// exclusive. The same happens with a list that is written right after a reading.

// forgetOutdated drops cached state that may be outdated, before a reading.
func (l *Loop) forgetOutdated(wishes []cgroup.PartitionWish, former map[cgroup.Path]bool) {
	s := &l.isolation
	if !s.reading {
		s.reading = true
		l.keepWatched()
	}
	var others []cgroup.Path
	for p, n := range s.memory.Nodes() {
		if c := l.cache.Current(p); c.Exists && (!c.CPUs.Equal(n.CPUs) || c.Partition.String() != n.State.String()) {
			others = append(others, p)
		}
	}
	for _, p := range others {
		s.forget(p)
	}
	for _, w := range wishes {
		if old, known := s.settled[w.Path]; !known || !partition.SameWish(old, w) || s.outcomes[w.Path].Phase != cgroup.PartitionInForce {
			s.memory.ForgetUp(w.Path)
			s.forget(w.Path)
		}
	}
	for p := range former {
		if open, known := s.former[p]; open || !known {
			s.memory.ForgetUp(p)
			s.forget(p)
		}
	}
}

// endPartitionReads ends the readings of a pass.
func (l *Loop) endPartitionReads() {
	if l.isolation.reading {
		l.isolation.reading = false
		l.keepWatched()
	}
}

// keepWatched drops the cached state of cgroups without a watch.
func (l *Loop) keepWatched() {
	w := l.watch.watcher
	if w == nil {
		l.isolation.memory.Clear()
		return
	}
	l.isolation.memory.Keep(func(p cgroup.Path) bool {
		files, _ := w.Reports(p)
		return files
	}, func(p cgroup.Path) bool {
		_, children := w.Reports(p)
		return children
	})
}

// forget drops the cached state of the cgroups that a write to p may have changed. A partition
// loses CPUs through the exclusive lists of its parents, and up to kernel 6.19 through the
// cpuset.cpus of its siblings.
func (s *isolation) forget(p cgroup.Path) {
	s.memory.Forget(p)
	s.memory.ForgetIn(p)
	if _, _, inPod := cgroup.PodOf(p.Parent()); inPod {
		s.memory.ForgetIn(p.Parent())
	}
}

// recheckPartitions schedules a reading of the partitions that a write to p may have broken.
func (l *Loop) recheckPartitions(p cgroup.Path) {
	l.isolation.stale = true
	l.isolation.forget(p)
}

// noticeList handles a notice of a write to a file of a cgroup, which may be an own write. It
// reports whether the write is external and concerns partitions.
func (l *Loop) noticeList(p cgroup.Path, name string) bool {
	switch {
	case name == "": // a new watch
		l.isolation.memory.Forget(p)
		return false
	case name == cgroup.FileExclusive:
	case (name == cgroup.FileCPUs || name == cgroup.FilePartition) && !l.cache.Has(p): // noticeWrite handles known cgroups
	default:
		return false
	}
	same, known := l.isolation.memory.Same(p)
	if same {
		return false
	}
	l.isolation.forget(p)
	on, _ := l.partitions()
	on = on && (known || name == cgroup.FileExclusive)
	l.isolation.stale = l.isolation.stale || on
	return on
}

// affectsPartition reports whether a write to p can break a partition: p itself, or up to kernel
// 6.19 a sibling.
func (l *Loop) affectsPartition(p cgroup.Path) bool {
	if l.isolation.outcomes[p].Phase == cgroup.PartitionInForce {
		return true
	}
	if l.Kernel.Settled {
		return false
	}
	for q, o := range l.isolation.outcomes {
		if o.Phase == cgroup.PartitionInForce && q.Parent() == p.Parent() {
			return true
		}
	}
	return false
}
