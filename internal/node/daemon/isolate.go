package daemon

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/partition"
	"github.com/cpupoold/cpupoold/internal/node/retry"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// repartition calls partition, and reads the cgroups again that its writes may have changed.
func (l *Loop) repartition(want []cgroup.Target, keep bool) []cgroup.Target {
	if !l.partition(want, keep, l.now()) {
		return want
	}
	l.recheckParents(want)
	return l.refreshCache(want)
}

// partition writes until the partitions have their desired state. With keep it only ends
// partitions. It reports whether it has written. First writes wait for the journal.
func (l *Loop) partition(want []cgroup.Target, keep bool, now time.Time) (wrote bool) {
	s := &l.isolation
	if l.cache.TakeStalePartitions() {
		s.stale = true
		s.memory.Clear()
	}
	if s.found == nil && !l.findLists() {
		return false
	}
	wishes := l.partitionWishes(want, keep, now)
	former := l.formerPartitions(wishes)
	if keep {
		l.keepOwners(former, want)
	}
	if len(wishes) == 0 && len(former) == 0 && len(s.missing) == 0 {
		s.stale = false
		clear(s.settled)
		clear(s.outcomes)
		clear(s.failures)
		clear(s.stuck)
		return false
	}
	if l.partitionsSettled(wishes, former, now) {
		return false
	}
	l.makeParking(wishes, now)
	l.forgetOutdated(wishes, former)
	typed := make(map[cgroup.Path]bool)
	for i := range partition.MaxSteps(len(wishes)) {
		step, view, err := l.partitionStep(wishes, former, now)
		if err != nil {
			l.log.Error("read partitions; the next scan tries again", "error", err)
			return wrote
		}
		s.parking.seen(view)
		if i == 0 {
			l.notePartitionConflicts(view, wishes, now)
		}
		if l.failTyped(typed, view, wishes, now) {
			continue
		}
		if len(step.Writes) == 0 {
			if l.settlePartitions(step, wishes, former, keep, now); !keep {
				l.logParking(view)
			}
			return wrote
		}
		if !l.noteOfPartitions(step.Writes, now) {
			return wrote // the originals are not on disk yet
		}
		wrote = true
		l.writePartitions(step.Writes, wishes, typed, now)
	}
	l.log.Error("partitions do not settle; the next pass goes on")
	return wrote
}

// findLists finds the partitions of containers that a daemon with a lost journal has left,
// and the exclusive lists of pods and of their parents. No other process shortens these
// lists. With any original at the start the journal was complete, and then other partitions
// do not belong to the daemon.
func (l *Loop) findLists() bool {
	l.findParking()
	if on, _ := l.partitions(); !on {
		l.isolation.found = make(map[cgroup.Path]bool)
		return true
	}
	listed, err := l.Cgroups.Listed()
	if err != nil {
		l.log.Warn("list exclusive CPUs of cgroups; the next pass tries again", "error", err)
		return false
	}
	l.isolation.found = partition.Left(listed, l.journal.WasBare())
	return true
}

// keepOwners drops the cgroups that still own their CPUs and only stop being partitions:
// other containers leave these CPUs first.
func (l *Loop) keepOwners(former map[cgroup.Path]bool, want []cgroup.Target) {
	for _, t := range want {
		if t.Exclusive && t.CPUs.Equal(l.cache.Current(t.Path).CPUs) {
			delete(former, t.Path)
		}
	}
}

// partitionStep reads the partitions and plans the next writes.
func (l *Loop) partitionStep(wishes []cgroup.PartitionWish, former map[cgroup.Path]bool, now time.Time) (cgroup.PartitionStep, cgroup.PartitionView, error) {
	in := cgroup.PartitionInput{Kernel: l.Kernel, Wishes: wishes, Former: slices.Sorted(maps.Keys(former)), Online: l.Online()}
	in.Housekeeping, in.Stuck = l.settings.Housekeeping(), l.isolation.paused(now)
	leaves := slices.Clone(in.Former)
	for _, w := range wishes {
		leaves = append(leaves, w.Path)
	}
	var err error
	if in.View, err = l.isolation.memory.Read(leaves); err != nil {
		return cgroup.PartitionStep{}, in.View, err
	}
	return cgroup.PlanPartitions(in), in.View, nil
}

// notePartitionConflicts notes the partitions that another process has given another type.
// Each is repaired at once, unless repairs pause because of repeated external writes: each
// change of a partition takes time on the whole node.
func (l *Loop) notePartitionConflicts(view cgroup.PartitionView, wishes []cgroup.PartitionWish, now time.Time) {
	s := &l.isolation
	for _, w := range wishes {
		n, there := view.Nodes[w.Path]
		if !there || n.State.Invalid || n.State.Is(w.Type) || s.outcomes[w.Path].Phase != cgroup.PartitionInForce || !partition.SameWish(s.settled[w.Path], w) {
			continue
		}
		l.backoffs.NoteExternalWrite(w.Path, retry.Deviation{Property: cgroup.FilePartition, Was: string(w.Type), Is: n.State.String()}, now)
		l.backoffs.SetCause(w.Path, cgroup.FilePartition, string(telemetry.CauseUnknown))
		delete(s.outcomes, w.Path) // or the next scan would count the write again
		s.stale = true
	}
}

// failTyped finds partitions whose type the kernel accepted without isolating their CPUs.
func (l *Loop) failTyped(typed map[cgroup.Path]bool, view cgroup.PartitionView, wishes []cgroup.PartitionWish, now time.Time) (found bool) {
	for i, w := range wishes {
		why, shared := "", view.Shared(w.Path)
		switch n := view.Nodes[w.Path]; {
		case !typed[w.Path] || w.Not != "":
			continue
		case n.State.Invalid:
			why = "the kernel reports " + n.State.String()
		case !shared.IsEmpty():
			why = fmt.Sprintf("the root cgroup still has CPUs %s", shared)
		default:
			continue
		}
		wishes[i].Not = l.failPartition(w, why, now)
		found = true
	}
	clear(typed)
	return found
}

// failPartition notes that the kernel has refused a partition.
func (l *Loop) failPartition(w cgroup.PartitionWish, why string, now time.Time) string {
	f := l.isolation.failures[w.Path]
	if !partition.SameWish(f.wish, w) {
		f = partitionFailure{}
	}
	f.wish, f.why = w, why
	f.after(now)
	l.isolation.failures[w.Path] = f
	return why
}

// noteOfPartitions notes the originals of writes. It reports whether the writes may be made.
// An original is always empty or member: the runtime makes cgroups without partitions.
func (l *Loop) noteOfPartitions(writes []cgroup.PartitionWrite, now time.Time) bool {
	for _, w := range writes {
		o := undo.Original{Path: w.Path, File: w.Property, Container: w.Container}
		if w.Property == cgroup.FilePartition {
			o.Value = string(cgroup.MemberPartition)
		}
		l.journal.Note(o)
		if w.Leaf != "" { // its original marks the lists above it as the daemon's
			l.journal.Note(undo.Original{Path: w.Leaf, File: cgroup.FilePartition, Container: w.Container, Value: string(cgroup.MemberPartition)})
		}
	}
	l.save(now)
	return !l.journal.Blocks()
}

// adopt notes the partitions that a daemon with a lost journal has left, so that restore
// ends them as well.
func (l *Loop) adopt(wishes []cgroup.PartitionWish, outcomes map[cgroup.Path]cgroup.PartitionOutcome, now time.Time) {
	added := false
	for _, w := range wishes {
		if outcomes[w.Path].Phase != cgroup.PartitionInForce || l.journal.HasOriginal(w.Path, cgroup.FilePartition) {
			continue
		}
		added = true
		l.journal.NoteAsync(undo.Original{Path: w.Path, File: cgroup.FilePartition, Container: w.Container, Value: string(cgroup.MemberPartition)})
		l.journal.NoteAsync(undo.Original{Path: w.Path, File: cgroup.FileExclusive, Container: w.Container})
		for a := w.Path.Parent(); a != ""; a = a.Parent() {
			l.journal.NoteAsync(undo.Original{Path: a, File: cgroup.FileExclusive})
		}
	}
	if added {
		l.save(now)
	}
}

// writePartitions makes the writes up to the first failure. The partition that needed the
// failed write is given up for a while. Without such a partition, writes to the cgroup
// pause.
func (l *Loop) writePartitions(writes []cgroup.PartitionWrite, wishes []cgroup.PartitionWish, typed map[cgroup.Path]bool, now time.Time) {
	for _, w := range writes {
		err := l.Cgroups.Apply(w.Write)
		l.isolation.memory.ForgetUp(w.Path)
		l.isolation.memory.ForgetUp(w.Leaf)
		l.cache.NoteWrite(w.Write, err)
		l.count(w.Write, err)
		switch {
		case err == nil:
			typed[w.Path] = typed[w.Path] || w.Property == cgroup.FilePartition && w.Value != string(cgroup.MemberPartition)
			continue
		case errors.Is(err, cgroup.ErrGone): // the next scan does not contain the cgroup
		default:
			i := slices.IndexFunc(wishes, func(wish cgroup.PartitionWish) bool { return wish.Path == w.Leaf && wish.Not == "" })
			if i >= 0 {
				wishes[i].Not = l.failPartition(wishes[i], err.Error(), now)
			} else {
				l.isolation.pause(w.Stuck(), err, now)
			}
		}
		return
	}
}

// pause begins a pause of the writes to a cgroup.
func (s *isolation) pause(p cgroup.Path, err error, now time.Time) {
	f := s.stuck[p]
	f.why = err.Error()
	f.after(now)
	s.stuck[p] = f
}

// paused returns the cgroups whose writes pause now, with the reasons.
func (s *isolation) paused(now time.Time) map[cgroup.Path]string {
	held := make(map[cgroup.Path]string)
	for p, f := range s.stuck {
		if now.Before(f.until) {
			held[p] = f.why
		}
	}
	return held
}

// settlePartitions takes over the outcomes when no write is left.
func (l *Loop) settlePartitions(step cgroup.PartitionStep, wishes []cgroup.PartitionWish, former map[cgroup.Path]bool, keep bool, now time.Time) {
	s := &l.isolation
	l.noteUnownedCPUs(step.Missing, now)
	clear(s.former)
	for p := range former {
		s.former[p] = len(s.missing) > s.leaked.Len()
	}
	if keep {
		return // the scan without keep follows
	}
	s.stale = false
	clear(s.settled)
	maps.DeleteFunc(s.stuck, func(_ cgroup.Path, f partitionFailure) bool { return !now.Before(f.until) }) // repeated now, or no longer needed
	waits := false
	l.adopt(wishes, step.Outcomes, now)
	for _, w := range wishes {
		was, now := s.outcomes[w.Path], step.Outcomes[w.Path]
		s.settled[w.Path] = w
		waits = waits || now.Phase == cgroup.PartitionWaits
		if was == now || now.Phase != cgroup.PartitionInForce {
			continue
		}
		delete(s.failures, w.Path)
		if w.Path != cgroup.Parking {
			l.log.Info("the kernel keeps other tasks off its CPUs", "cgroup", w.Path, "partition", w.Type, "cpus", w.CPUs)
		}
	}
	s.outcomes = step.Outcomes
	maps.DeleteFunc(s.failures, func(p cgroup.Path, _ partitionFailure) bool { _, wished := s.settled[p]; return !wished })
	if waits || len(s.missing) > s.leaked.Len() {
		s.waits.after(now)
	} else {
		s.waits = partitionFailure{}
	}
}

// noteUnownedCPUs keeps track of the CPUs that are in no cgroup, and in no partition of
// another process. After a while such CPUs count as lost.
func (l *Loop) noteUnownedCPUs(missing cpuset.Set, now time.Time) {
	s := &l.isolation
	if !missing.IsEmpty() {
		others, err := l.Cgroups.Partitioned()
		if err != nil {
			l.log.Warn("list partitions of other processes", "error", err)
			return
		}
		missing = missing.Intersection(l.settings.Topology.Online).Difference(others)
	}
	maps.DeleteFunc(s.missing, func(cpu int, _ time.Time) bool { return !missing.Contains(cpu) })
	var leaked cpuset.Set
	for cpu := range missing.All() {
		since, known := s.missing[cpu]
		if !known {
			s.missing[cpu] = now
		} else if now.Sub(since) >= partition.LeakTime {
			leaked = leaked.Union(cpuset.Of(cpu))
		}
	}
	if !leaked.Equal(s.leaked) {
		if more := leaked.Difference(s.leaked); !more.IsEmpty() {
			l.log.Error("online CPUs are in no cgroup; not allocating them", "cpus", more)
		}
		if back := s.leaked.Difference(leaked); !back.IsEmpty() {
			l.log.Info("CPUs that were in no cgroup are back", "cpus", back)
		}
		s.leaked = leaked
		s.replan = now.Add(time.Millisecond) // without the lost CPUs
	}
}

// recheckParents invalidates the targets whose parent has lost CPUs to a partition.
func (l *Loop) recheckParents(want []cgroup.Target) {
	for _, t := range want {
		if c := l.cache.Current(t.Path); c.Exists && !t.CPUs.IsSubsetOf(c.ParentEffective) {
			l.cache.Invalidate(t.Path)
		}
	}
}
