package daemon

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/noise"
	"github.com/cpupoold/cpupoold/internal/node/partition"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Codes of problems with partitions.
const (
	codeNoPartitions pools.Code = "NoPartitions"
	codeNoPartition  pools.Code = "NoPartition"
	codeLeakedCPUs   pools.Code = "LeakedCPUs"

	codeForeignPartition pools.Code = "ForeignPartition"
	codeStuckPartition   pools.Code = "StuckPartition"
)

// isolation is the state of cpuset partitions.
type isolation struct {
	stale    bool                                    // read all partitions again
	settled  map[cgroup.Path]cgroup.PartitionWish    // in the last scan
	outcomes map[cgroup.Path]cgroup.PartitionOutcome // in the last scan
	failures map[cgroup.Path]partitionFailure        // refused partitions, by leaf
	stuck    map[cgroup.Path]partitionFailure        // cgroups that the kernel does not let change

	former  map[cgroup.Path]bool // partitions to end; true: CPUs are missing
	missing map[int]time.Time    // CPUs in no cgroup, since when
	leaked  cpuset.Set           // missing CPUs that count as lost
	found   map[cgroup.Path]bool // left by a daemon with a lost journal; nil: not searched

	replan  time.Time               // the plan changes because of lost CPUs
	waits   partitionFailure        // pause of partitions that wait for CPUs
	memory  *cgroup.PartitionMemory // values read by scans
	reading bool                    // this pass has made a scan
	parking parking
}

// partitionFailure is a partition that the kernel has refused, and the pause before the
// next attempt.
type partitionFailure struct {
	wish  cgroup.PartitionWish
	why   string
	pause time.Duration
	until time.Time
}

func newIsolation(cgroups *cgroup.FS) isolation {
	return isolation{
		stale:    true,
		settled:  make(map[cgroup.Path]cgroup.PartitionWish),
		outcomes: make(map[cgroup.Path]cgroup.PartitionOutcome),
		failures: make(map[cgroup.Path]partitionFailure),
		stuck:    make(map[cgroup.Path]partitionFailure),
		former:   make(map[cgroup.Path]bool),
		missing:  make(map[int]time.Time),
		memory:   cgroups.PartitionMemory(),
	}
}

// after begins the next, longer pause.
func (f *partitionFailure) after(now time.Time) {
	f.pause = min(max(2*f.pause, partition.FirstPause), partition.LastPause)
	f.until = now.Add(f.pause)
}

// partitions reports whether containers become partitions. If they do not although the
// configuration asks for it, it returns the reason.
func (l *Loop) partitions() (on bool, why string) { return l.settings.Partitions(l.Kernel) }

// partitionWishes returns the desired partitions. With keep no new partition may take CPUs
// yet.
func (l *Loop) partitionWishes(want []cgroup.Target, keep bool, now time.Time) []cgroup.PartitionWish {
	var wishes []cgroup.PartitionWish
	if on, _ := l.partitions(); !on {
		return nil
	}
	for _, t := range want {
		c := l.cache.Current(t.Path)
		if !desired.Partitionable(t) || t.Container == "" || !c.Exists {
			continue
		}
		w := cgroup.PartitionWish{Path: t.Path, Container: t.Container, Type: l.settings.PartitionType(l.inventory, t, l.Kernel), CPUs: t.CPUs}
		w.Not = l.whyWait(w, now)
		w.Keep = keep || !l.isAlone(t, want)
		wishes = append(wishes, w)
	}
	if w, ok := l.parkingWish(want, keep, now); ok {
		wishes = append(wishes, w)
	}
	return wishes
}

// cpusetsAlone begins the text of the problem of an owner that should be a partition.
const cpusetsAlone = "its CPUs are its own by cpusets alone: "

// whyWait returns why a partition has to wait; empty if it does not.
func (l *Loop) whyWait(w cgroup.PartitionWish, now time.Time) string {
	if slices.Contains(l.backoffs.Pauses(w.Path, l.status.runsOutside(l.cache), now), cgroup.FilePartition) {
		return "another process ends it after each repair; repairs pause"
	}
	if f, failed := l.isolation.failures[w.Path]; failed && partition.SameWish(f.wish, w) && now.Before(f.until) {
		return f.why
	}
	return ""
}

// isAlone reports whether an owner runs on its CPUs and no other target runs on them. Slices
// of the host may: the partition keeps them off.
func (l *Loop) isAlone(t cgroup.Target, want []cgroup.Target) bool {
	if c := l.cache.Current(t.Path); !c.CPUs.Equal(t.CPUs) || l.cache.IsStale(t.Path) {
		return false
	}
	return !slices.ContainsFunc(want, func(o cgroup.Target) bool {
		c := l.cache.Current(o.Path)
		return o.Path != t.Path && !o.CPUs.IsEmpty() && !o.Around && c.Exists && c.Effective.Overlaps(t.CPUs)
	})
}

// formerPartitions returns the cgroups that were partitions of the daemon, by the journal,
// and must be partitions no longer.
func (l *Loop) formerPartitions(wishes []cgroup.PartitionWish) map[cgroup.Path]bool {
	former := make(map[cgroup.Path]bool)
	for k := range l.journal.Keys() {
		switch {
		case k.File == cgroup.FilePartition:
			former[k.Path] = true
		case k.File == cgroup.FileExclusive && !l.journal.HasOriginal(k.Path, cgroup.FilePartition):
			former[k.Path.Join("gone")] = true // its leaf is unknown, but the list is the daemon's
		}
	}
	maps.Copy(former, l.isolation.found)
	if l.isolation.parking.made {
		former[cgroup.Parking] = true
	}
	for _, w := range wishes {
		delete(former, w.Path)
	}
	for p := range l.others.Cgroups(l.inventory) {
		delete(former, p)
	}
	return former
}

// partitionsSettled reports whether nothing has changed since the last scan.
func (l *Loop) partitionsSettled(wishes []cgroup.PartitionWish, former map[cgroup.Path]bool, now time.Time) bool {
	s := &l.isolation
	if s.stale || len(s.missing) > s.leaked.Len() || len(wishes) != len(s.settled) {
		return false
	}
	if on, _ := l.parks(); s.parking.made && !on {
		return false // the cgroup of parked CPUs has to be removed
	}
	if len(s.paused(now)) != len(s.stuck) {
		return false
	}
	for p := range former {
		if open, known := s.former[p]; open || !known {
			return false
		}
	}
	for _, w := range wishes {
		old, known := s.settled[w.Path]
		if !known || !partition.SameWish(old, w) || old.Not != w.Not || old.Keep && !w.Keep {
			return false
		}
		inForce := l.cache.Current(w.Path).Partition.Is(w.Type)
		if w.Path == cgroup.Parking {
			inForce = l.parkedStill()
		}
		if phase := s.outcomes[w.Path].Phase; inForce != (phase == cgroup.PartitionInForce) || phase == cgroup.PartitionWaits && !now.Before(s.waits.until) {
			return false
		}
	}
	return true
}

// isSettled reports whether writes need no scan of partitions first: each partition is settled,
// and every CPU is in a cgroup or lost.
func (s *isolation) isSettled() bool {
	for _, o := range s.outcomes {
		if o.Phase != cgroup.PartitionInForce && o.Phase != cgroup.PartitionRefused {
			return false
		}
	}
	for _, open := range s.former {
		if open {
			return false
		}
	}
	return (!s.stale || len(s.outcomes) == 0) && len(s.missing) == s.leaked.Len() && len(s.stuck) == 0
}

// mode returns how the exclusive CPUs of a container are isolated, for status and metrics.
func (s *isolation) mode(p cgroup.Path) noise.Mode {
	if s.outcomes[p].Phase == cgroup.PartitionInForce {
		return noise.Mode("partition-" + string(s.settled[p].Type))
	}
	return noise.CPUSet
}

// counts returns the numbers of partitions of containers by outcome.
func (s *isolation) counts() map[string]int {
	counts := map[string]int{"root": 0, "isolated": 0, "underway": 0, "waits": 0, "refused": 0}
	for p, o := range s.outcomes {
		if p == cgroup.Parking {
			continue
		}
		switch o.Phase {
		case cgroup.PartitionInForce:
			counts[string(s.settled[p].Type)]++
		case cgroup.PartitionWaits:
			counts["waits"]++
		case cgroup.PartitionRefused:
			counts["refused"]++
		default:
			counts["underway"]++
		}
	}
	return counts
}

// isolationProblems returns the containers whose CPUs are not isolated as configured, and
// the lost CPUs.
func (l *Loop) isolationProblems() []pools.Problem {
	var all []pools.Problem
	if _, why := l.partitions(); why != "" {
		all = append(all, pools.Problem{Reason: pools.Reason{Code: codeNoPartitions, Text: why}})
	}
	if _, why := l.parks(); why != "" {
		all = append(all, pools.Problem{Reason: pools.Reason{Code: codeNoParking, Text: "guaranteed.park is true, and free CPUs are not parked: " + why}})
	}
	if leaked := l.isolation.leaked; !leaked.IsEmpty() {
		all = append(all, pools.Problem{Reason: pools.Reason{Code: codeLeakedCPUs,
			Text: fmt.Sprintf("CPUs %s are online and in no cgroup: they are not allocated until the machine boots", leaked)}})
	}
	on, _ := l.partitions()
	for _, t := range l.status.targets {
		if on && t.Exclusive && t.Container != "" && !t.Mixed.IsEmpty() {
			p := pools.Problem{Reason: pools.Reason{Code: codeNoPartition, Text: cpusetsAlone + desired.Unpartitionable(t)}}
			l.inventory.NameOwner(&p, t.Path)
			all = append(all, p)
		}
		st := l.cache.Current(t.Path).Partition
		if _, wished := l.isolation.outcomes[t.Path]; wished || !st.Valid() || l.journal.HasOriginal(t.Path, cgroup.FilePartition) {
			continue
		}
		p := pools.Problem{Reason: pools.Reason{Code: codeForeignPartition, Text: fmt.Sprintf(
			"%s is a partition (%s) that is not in cpupoold's journal: its cpuset.cpus has no effect; write member to its %s",
			t.Path, st, cgroup.FilePartition)}}
		l.inventory.NameOwner(&p, t.Path)
		all = append(all, p)
	}
	for _, p := range slices.Sorted(maps.Keys(l.isolation.stuck)) {
		if l.isolation.outcomes[p].Why != "" {
			continue // the outcome is a problem already
		}
		problem := pools.Problem{Reason: pools.Reason{Code: codeStuckPartition, Text: fmt.Sprintf(
			"the kernel refuses to end the partition %s: %s; its CPUs are missing elsewhere", p, l.isolation.stuck[p].why)}}
		l.inventory.NameOwner(&problem, p)
		all = append(all, problem)
	}
	for _, p := range slices.Sorted(maps.Keys(l.isolation.outcomes)) {
		o := l.isolation.outcomes[p]
		if o.Phase != cgroup.PartitionRefused && o.Phase != cgroup.PartitionWaits {
			continue
		}
		problem := pools.Problem{Reason: pools.Reason{Code: codeNoPartition, Text: cpusetsAlone + o.Why}}
		if p == cgroup.Parking {
			problem.Reason = pools.Reason{Code: codeNoParking, Text: "free CPUs are not parked: " + o.Why}
		}
		l.inventory.NameOwner(&problem, p)
		all = append(all, problem)
	}
	return all
}

// nextPartition calls earlier with the times at which partitions need another scan.
func (l *Loop) nextPartition(earlier func(time.Time)) {
	s := &l.isolation
	earlier(s.replan)
	for _, f := range s.failures {
		earlier(f.until)
	}
	for _, f := range s.stuck {
		earlier(f.until)
	}
	for _, since := range s.missing {
		earlier(since.Add(partition.LeakTime))
	}
	if len(s.missing) > s.leaked.Len() {
		earlier(s.waits.until)
	}
	for _, o := range s.outcomes {
		if o.Phase == cgroup.PartitionWaits {
			earlier(s.waits.until)
		}
	}
}

// partitionPending reports whether a container is about to become a partition.
func (l *Loop) partitionPending(t cgroup.Target) bool {
	on, _ := l.partitions()
	if !on || !desired.Partitionable(t) {
		return false
	}
	phase := l.isolation.outcomes[t.Path].Phase
	return phase != cgroup.PartitionInForce && phase != cgroup.PartitionRefused
}

// unblocksPartition takes note of a removed cgroup. It reports whether the cgroup may have been the
// reason for the refusal of a partition next to it, or in a pod next to it.
func (l *Loop) unblocksPartition(gone cgroup.Path) bool {
	for p, o := range l.isolation.outcomes {
		if o.Phase != cgroup.PartitionInForce && strings.HasPrefix(string(p), string(gone.Parent())+"/") {
			l.isolation.stale = true
			return true
		}
	}
	return false
}

// untrimmed reports whether a cgroup was a partition whose CPUs may still be in the lists of
// its parents.
func (l *Loop) untrimmed(p cgroup.Path) bool {
	open, looked := l.isolation.former[p]
	return l.journal.HasOriginal(p, cgroup.FilePartition) && (open || !looked)
}

// hasPartition reports whether a container is a partition. The partition has to end before its
// cgroup is removed.
func (l *Loop) hasPartition(container string) bool {
	e := l.inventory.Container(container)
	return e != nil && l.isolation.outcomes[e.Path].Phase == cgroup.PartitionInForce
}
