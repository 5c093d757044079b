package partition

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/retry"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Situation is the state of the pass that calls Dissolve or Make.
type Situation struct {
	Targets []cgroup.Target // of cgroups that exist
	Plan    *pools.Plan
	Leaving cpuset.Set      // CPUs of units that leave
	Watcher *cgroup.Watcher // nil if no cgroup is watched
	Now     time.Time
}

// Dissolve ends and shrinks partitions whose CPUs other targets get, and makes none. It reports
// whether it has written. Then the caller reads the invalidated cgroups again.
func (p *Partitions) Dissolve(s Situation) (wrote bool) {
	return (&scan{Partitions: p, Situation: s, keep: true}).run()
}

// Make makes partitions of the owners that are alone on their CPUs, and ends the readings of a
// pass. It reports whether it has written, as Dissolve.
func (p *Partitions) Make(s Situation) (wrote bool) {
	wrote = (&scan{Partitions: p, Situation: s}).run()
	if p.reading {
		p.reading = false
		p.keepWatched(s.Watcher)
	}
	return wrote
}

// scan reads the partitions, and writes until they have their desired state.
type scan struct {
	*Partitions
	Situation
	keep   bool // only end partitions
	wanted []cgroup.DesiredPartition
	former map[cgroup.Path]bool
}

// run makes a scan unless partitions are settled. First writes wait for the journal.
func (s *scan) run() (wrote bool) {
	if s.found == nil && !s.findLists() {
		return false
	}
	s.wanted = s.desired()
	s.former = s.formerPartitions()
	if len(s.wanted)+len(s.former)+len(s.unowned.since) == 0 {
		s.stale, s.waits = false, failure{}
		clear(s.last)
		clear(s.failures)
		clear(s.stuck)
		return false
	}
	if s.isCurrent() {
		return false
	}
	s.makeParking()
	s.forgetOutdated()
	if wrote = s.writeAll(); wrote {
		for _, t := range s.Targets { // the parent may have lost CPUs
			if c := s.Cache.Current(t.Path); c.Exists && !t.CPUs.IsSubsetOf(c.ParentEffective) {
				s.Cache.Invalidate(t.Path)
			}
		}
	}
	return wrote
}

func (s *scan) writeAll() (wrote bool) {
	var written []cgroup.PartitionWrite // after the last reading
	for i := range MaxSteps(len(s.wanted)) {
		step, view, err := s.plan()
		if err != nil {
			s.Log.Error("read partitions; the next scan tries again", "error", err)
			return wrote
		}
		s.parking.see(view)
		if i == 0 {
			s.noteConflicts(view)
		}
		switch {
		case s.failTyped(view, written):
			written = nil
			continue
		case len(step.Writes) == 0:
			s.finish(step, view)
			return wrote
		case !s.noteOriginals(step.Writes):
			return wrote // the originals are not on disk yet
		}
		wrote, written = true, step.Writes[:s.write(step.Writes)]
	}
	s.Log.Error("partitions do not settle; the next pass goes on")
	return wrote
}

// findLists finds the parking, the partitions of containers that a daemon with a lost journal has
// left, and the exclusive lists of pods and of their parents. No other process shortens these
// lists. With any original at the start the journal was complete, and then other partitions
// do not belong to the daemon.
func (s *scan) findLists() bool {
	_, err := s.Cache.State(cgroup.ParkingTop)
	s.parking.made = !errors.Is(err, cgroup.ErrGone)
	if st, err := s.Cache.State(cgroup.Parking); err == nil && st.Partition.Valid() {
		s.parking.cpus = st.Effective
	}
	var listed []cgroup.Path
	if s.Enabled() {
		var err error
		if listed, err = s.Host.Cgroups.Listed(); err != nil {
			s.Log.Warn("list exclusive CPUs of cgroups; the next pass tries again", "error", err)
			return false
		}
	}
	s.found = left(listed, s.Journal.Originals.WasBare())
	return true
}

func (s *scan) isCurrent() bool {
	if s.stale || s.unowned.mayReturn() || len(s.wanted) != len(s.last) || len(s.paused()) != len(s.stuck) {
		return false
	}
	if s.parking.made && !s.parks() {
		return false // the cgroup of parked CPUs has to be removed
	}
	for at := range s.former {
		if !s.ended[at] {
			return false
		}
	}
	for _, w := range s.wanted {
		old, known := s.last[w.Path]
		if !known || !samePartition(old.DesiredPartition, w) || old.Not != w.Not || old.Keep && !w.Keep {
			return false
		}
		is := s.Cache.Current(w.Path).Partition.Is(w.Type)
		if w.Path == cgroup.Parking {
			is = s.isParked()
		}
		if is != s.inForce(w.Path) || old.Phase == cgroup.PartitionWaits && !s.Now.Before(s.waits.until) {
			return false
		}
	}
	return true
}

// forgetOutdated drops cached state that may be outdated, before a reading.
func (s *scan) forgetOutdated() {
	if !s.reading {
		s.reading = true
		s.keepWatched(s.Watcher)
	}
	for at, n := range s.Memory.Nodes() {
		if c := s.Cache.Current(at); c.Exists && (!c.CPUs.Equal(n.CPUs) || c.Partition.String() != n.State.String()) {
			s.forget(at)
		}
	}
	for _, w := range s.wanted {
		if !s.inForce(w.Path) || !samePartition(s.last[w.Path].DesiredPartition, w) {
			s.Memory.ForgetUp(w.Path)
			s.forget(w.Path)
		}
	}
	for at := range s.former {
		if s.unowned.mayReturn() || !s.ended[at] {
			s.Memory.ForgetUp(at)
			s.forget(at)
		}
	}
}

func (s *scan) plan() (cgroup.PartitionStep, cgroup.PartitionView, error) {
	in := cgroup.PartitionInput{
		Kernel: s.Host.Kernel, Desired: s.wanted, Former: slices.Sorted(maps.Keys(s.former)), Online: s.Host.Online(), Housekeeping: s.Settings.Housekeeping(), Stuck: s.paused(),
	}
	leaves := slices.Clone(in.Former)
	for _, w := range s.wanted {
		leaves = append(leaves, w.Path)
	}
	var err error
	if in.View, err = s.Memory.Read(leaves); err != nil {
		return cgroup.PartitionStep{}, in.View, err
	}
	return cgroup.PlanPartitions(in), in.View, nil
}

// paused returns the cgroups whose writes pause now, with the reasons.
func (s *scan) paused() map[cgroup.Path]string {
	held := make(map[cgroup.Path]string)
	for at, f := range s.stuck {
		if s.Now.Before(f.until) {
			held[at] = f.why
		}
	}
	return held
}

// noteConflicts notes partitions that another process has changed. Repairs may pause: each change of
// a partition takes time on the whole node.
func (s *scan) noteConflicts(view cgroup.PartitionView) {
	for _, w := range s.wanted {
		n, there := view.Nodes[w.Path]
		if !there || n.State.Invalid || n.State.Is(w.Type) || !s.inForce(w.Path) || !samePartition(s.last[w.Path].DesiredPartition, w) {
			continue
		}
		s.Backoffs.NoteExternalWrite(w.Path, retry.Deviation{Property: cgroup.FilePartition, Was: string(w.Type), Is: n.State.String()}, s.Now)
		s.Backoffs.SetCause(w.Path, cgroup.FilePartition, string(telemetry.CauseUnknown))
		delete(s.last, w.Path) // or the next scan would count the write again
		s.stale = true
	}
}

// failTyped finds written partitions whose type the kernel accepted without isolating their CPUs.
func (s *scan) failTyped(view cgroup.PartitionView, written []cgroup.PartitionWrite) (found bool) {
	for _, w := range written {
		i := s.indexOf(w.Path)
		if i < 0 || w.Property != cgroup.FilePartition || w.Value == string(cgroup.MemberPartition) {
			continue
		}
		if n := view.Nodes[w.Path]; n.State.Invalid {
			s.fail(i, "the kernel reports "+n.State.String())
			found = true
		} else if shared := view.Shared(w.Path); !shared.IsEmpty() {
			s.fail(i, fmt.Sprintf("the root cgroup still has CPUs %s", shared))
			found = true
		}
	}
	return found
}

// indexOf returns the index of the partition that a cgroup may become now, or -1.
func (s *scan) indexOf(leaf cgroup.Path) int {
	return slices.IndexFunc(s.wanted, func(w cgroup.DesiredPartition) bool { return w.Path == leaf && w.Not == "" })
}

// fail notes that the kernel has refused the partition with index i.
func (s *scan) fail(i int, why string) {
	w := &s.wanted[i]
	f := s.failures[w.Path]
	if !samePartition(f.partition, *w) {
		f = failure{partition: *w}
	}
	f.after(why, s.Now)
	s.failures[w.Path] = f
	w.Not = why
}

// noteOriginals notes the originals of writes. It reports whether the writes may be made.
func (s *scan) noteOriginals(writes []cgroup.PartitionWrite) bool {
	for _, w := range writes {
		s.Journal.Originals.Note(original(w.Path, w.Property, w.Container))
		if w.Leaf != "" { // its original marks the lists above it as the daemon's
			s.Journal.Originals.Note(original(w.Leaf, cgroup.FilePartition, w.Container))
		}
	}
	s.Save(s.Now)
	return !s.Journal.Blocks()
}

// adopt notes a partition of a daemon with a lost journal, so that restore ends it as well.
func (s *scan) adopt(w cgroup.DesiredPartition) {
	if s.Journal.Originals.Has(w.Path, cgroup.FilePartition) {
		return
	}
	s.Journal.Originals.NoteAsync(original(w.Path, cgroup.FilePartition, w.Container))
	s.Journal.Originals.NoteAsync(original(w.Path, cgroup.FileExclusive, w.Container))
	for a := w.Path.Parent(); a != ""; a = a.Parent() {
		s.Journal.Originals.NoteAsync(original(a, cgroup.FileExclusive, ""))
	}
}

// original is always empty or member: the runtime makes cgroups without partitions.
func original(at cgroup.Path, file, container string) undo.Original {
	o := undo.Original{Path: at, File: file, Container: container}
	if file == cgroup.FilePartition {
		o.Value = string(cgroup.MemberPartition)
	}
	return o
}

// write stops at the first failure and returns the number of writes. The partition of the failed
// write, or else writes to the cgroup, pause.
func (s *scan) write(writes []cgroup.PartitionWrite) int {
	for n, w := range writes {
		err := s.Host.Cgroups.Apply(w.Write)
		s.Memory.ForgetUp(w.Path)
		s.Memory.ForgetUp(w.Leaf)
		s.Cache.NoteWrite(w.Write, err)
		s.Count(w.Write, err)
		if err == nil {
			continue
		}
		if i := s.indexOf(w.Leaf); errors.Is(err, cgroup.ErrGone) {
			// The next reading does not contain the cgroup.
		} else if i >= 0 {
			s.fail(i, err.Error())
		} else {
			f := s.stuck[w.Stuck()]
			f.after(err.Error(), s.Now)
			s.stuck[w.Stuck()] = f
		}
		return n
	}
	return len(writes)
}

// finish takes over the outcomes when no write is left.
func (s *scan) finish(step cgroup.PartitionStep, view cgroup.PartitionView) {
	s.noteUnowned(step.Missing)
	s.ended = s.former
	if s.keep {
		return // the scan of Make follows
	}
	s.stale = false
	maps.DeleteFunc(s.stuck, func(_ cgroup.Path, f failure) bool { return !s.Now.Before(f.until) }) // repeated now, or no longer needed
	last := make(map[cgroup.Path]attempt, len(s.wanted))
	waits := s.unowned.mayReturn()
	for _, w := range s.wanted {
		was, is := s.last[w.Path].PartitionOutcome, step.Outcomes[w.Path]
		last[w.Path] = attempt{w, is}
		waits = waits || is.Phase == cgroup.PartitionWaits
		if is.Phase != cgroup.PartitionInForce {
			continue
		}
		if s.adopt(w); was == is {
			continue
		}
		delete(s.failures, w.Path)
		if w.Path != cgroup.Parking {
			s.Log.Info("the kernel keeps other tasks off its CPUs", "cgroup", w.Path, "partition", w.Type, "cpus", w.CPUs)
		}
	}
	s.last = last
	s.Save(s.Now)
	maps.DeleteFunc(s.failures, func(at cgroup.Path, _ failure) bool { _, isWanted := last[at]; return !isWanted })
	if waits {
		s.waits.after("", s.Now)
	} else {
		s.waits = failure{}
	}
	s.finishParking(view)
}

// noteUnowned tracks CPUs in no cgroup of a scan and in no partition of another process.
func (s *scan) noteUnowned(missing cpuset.Set) {
	if !missing.IsEmpty() {
		others, err := s.Host.Cgroups.Partitioned()
		if err != nil {
			s.Log.Warn("list partitions of other processes", "error", err)
			return
		}
		missing = missing.Intersection(s.Settings.Topology.Online).Difference(others)
	}
	s.unowned.note(missing, s.Now, s.Log)
}
