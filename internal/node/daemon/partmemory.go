package daemon

import (
	"github.com/cpupoold/cpupoold/internal/node/partition"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// # What is known of partitions between looks
//
// What a look at partitions has read is known to the next one, so that an owner's partition
// costs as much beside hundreds of pods as beside a few. That is as good as what the owner
// of all state knows of the other files (package kernelstate): the watcher tells of what others write,
// and of cgroups that come and go. All the same these are read again:
//
//   - what a step has written to, the partition that it was for, and all that these are in
//   - who is to be another partition than at the last look, or none, and all that is in its pod
//   - what others have written to, all that is below it, and what is beside it in a pod
//   - who has another cpuset.cpus or cpuset.cpus.partition by the tree
//   - in each pass, what the watcher does not tell of: the slices of the host
//   - everything, with each resync, after lost events, and when CPUs have come or gone
//
// A list of others that is not known yet can do no more than one that is written right after
// a read: the kernel refuses what is not exclusive.

// recall forgets what may not be so any more, before a look.
func (l *Loop) recall(wishes []cgroup.PartitionWish, former map[cgroup.Path]bool) {
	s := &l.isolation
	if !s.looked {
		s.looked = true
		l.keepNotices()
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

// logBackoffs ends the looks of a pass.
func (l *Loop) logBackoffs() {
	if l.isolation.looked {
		l.isolation.looked = false
		l.keepNotices()
	}
}

// keepNotices forgets what the watcher does not tell of.
func (l *Loop) keepNotices() {
	w := l.watch.watcher
	if w == nil {
		l.isolation.memory.Clear()
		return
	}
	l.isolation.memory.Keep(func(p cgroup.Path) bool {
		files, _ := w.Hears(p)
		return files
	}, func(p cgroup.Path) bool {
		_, children := w.Hears(p)
		return children
	})
}

// forget has those read again whom a write to a cgroup may have changed: a partition loses
// its CPUs by the lists of what it is in, and up to kernel 6.19 by the cpuset.cpus of what is
// beside it.
func (s *isolation) forget(p cgroup.Path) {
	s.memory.Forget(p)
	s.memory.ForgetIn(p)
	if _, _, inPod := cgroup.PodOf(p.Parent()); inPod {
		s.memory.ForgetIn(p.Parent())
	}
}

// recheckPartitions has partitions looked at that somebody may have broken by a write to a cgroup.
func (l *Loop) recheckPartitions(p cgroup.Path) {
	l.isolation.stale = true
	l.isolation.forget(p)
}

// noticeList is told of a write to a cgroup, which may have been the daemon's. It says whether
// somebody else has written what matters to partitions, and was not known.
func (l *Loop) noticeList(p cgroup.Path, name string) bool {
	switch {
	case name == "": // from now on it is told of
		l.isolation.memory.Forget(p)
		return false
	case name == cgroup.FileExclusive:
	case (name == cgroup.FileCPUs || name == cgroup.FilePartition) && !l.cache.Has(p): // else heardWrite has looked
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

// beside says that a cgroup is a partition, or that what is written to it can break one: up
// to kernel 6.19 that of a sibling.
func (l *Loop) beside(p cgroup.Path) bool {
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
