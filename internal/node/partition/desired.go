package partition

import (
	"maps"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

func (s *scan) desired() (wanted []cgroup.DesiredPartition) {
	on := s.Enabled()
	for _, t := range s.Targets {
		if on && t.Partitionable() && t.Container != "" && s.Cache.Current(t.Path).Exists {
			wanted = append(wanted, s.withReason(cgroup.DesiredPartition{
				Path: t.Path, Container: t.Container, Type: s.Settings.PartitionType(s.Objects, t, s.Host.Kernel), CPUs: t.CPUs, Keep: s.keep || !s.isAlone(t),
			}))
		}
	}
	if cpus := s.toPark(); !cpus.IsEmpty() {
		wanted = append(wanted, s.withReason(cgroup.DesiredPartition{Path: cgroup.Parking, Type: cgroup.IsolatedPartition, CPUs: cpus, Keep: s.keep}))
	}
	return wanted
}

// withReason returns w with the reason if its partition has to wait.
func (s *scan) withReason(w cgroup.DesiredPartition) cgroup.DesiredPartition {
	runsOutside := func(cgroup.Path) bool { return false } // matters to cpuset.cpus alone
	f := s.failures[w.Path]
	switch {
	case slices.Contains(s.Backoffs.Pauses(w.Path, runsOutside, s.Now), cgroup.FilePartition):
		w.Not = "another process ends it after each repair; repairs pause"
	case s.Now.Before(f.until) && samePartition(f.partition, w):
		w.Not = f.why
	}
	return w
}

// isAlone reports whether no other target runs on the owner's CPUs. Slices of the host may.
func (s *scan) isAlone(t cgroup.Target) bool {
	if c := s.Cache.Current(t.Path); !c.CPUs.Equal(t.CPUs) || s.Cache.IsStale(t.Path) {
		return false
	}
	return !slices.ContainsFunc(s.Targets, func(o cgroup.Target) bool {
		c := s.Cache.Current(o.Path)
		return o.Path != t.Path && !o.CPUs.IsEmpty() && !o.Around && c.Exists && c.Effective.Overlaps(t.CPUs)
	})
}

// formerPartitions returns partitions of the journal that must end. While partitions only end,
// owners keep theirs: other containers leave first.
func (s *scan) formerPartitions() map[cgroup.Path]bool {
	former := make(map[cgroup.Path]bool)
	for k := range s.Journal.Originals.Keys() {
		switch {
		case k.File == cgroup.FilePartition:
			former[k.Path] = true
		case k.File == cgroup.FileExclusive && !s.Journal.Originals.Has(k.Path, cgroup.FilePartition):
			former[k.Path.Join("gone")] = true // its leaf is unknown, but the list is the daemon's
		}
	}
	maps.Copy(former, s.found)
	if s.parking.made {
		former[cgroup.Parking] = true
	}
	for _, w := range s.wanted {
		delete(former, w.Path)
	}
	for at := range s.Others.Cgroups(s.Objects) {
		delete(former, at)
	}
	for _, t := range s.Targets {
		if s.keep && t.Exclusive && t.CPUs.Equal(s.Cache.Current(t.Path).CPUs) {
			delete(former, t.Path)
		}
	}
	return former
}
