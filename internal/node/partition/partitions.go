package partition

import (
	"log/slog"
	"maps"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/internal/node/noise"
	"github.com/cpupoold/cpupoold/internal/node/quiet"
	"github.com/cpupoold/cpupoold/internal/node/retry"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Sources holds the facts that Partitions reads, and what its writes need.
type Sources struct {
	Host     *hostenv.Host
	Log      *slog.Logger
	Settings *desired.Settings
	Objects  *inventory.Objects
	Others   *desired.OtherManagers
	Cache    *kernelstate.Cache
	Memory   *cgroup.PartitionMemory // partitions as they were last read
	Backoffs *retry.Backoffs
	Journal  *undo.Journal
	Quiet    *quiet.Quiet

	Save  func(now time.Time)             // writes the journal to the disk
	Count func(w cgroup.Write, err error) // counts a write
}

// Partitions makes, repairs and ends cpuset partitions.
type Partitions struct {
	Sources

	stale bool                    // read all partitions again
	last  map[cgroup.Path]attempt // desired partitions of the last scan
	ended map[cgroup.Path]bool    // former partitions in the last scan

	failures map[cgroup.Path]failure // refused partitions, by leaf
	stuck    map[cgroup.Path]failure // cgroups that the kernel does not let change

	waits   failure              // pause of partitions that wait for CPUs
	found   map[cgroup.Path]bool // left by a daemon with a lost journal; nil: not searched
	reading bool                 // this pass has made a scan
	unowned unowned
	parking parking
}

// New returns Partitions that have read nothing.
func New(s Sources) *Partitions {
	return &Partitions{
		Sources:  s,
		stale:    true,
		last:     make(map[cgroup.Path]attempt),
		failures: make(map[cgroup.Path]failure),
		stuck:    make(map[cgroup.Path]failure),
		unowned:  unowned{since: make(map[int]time.Time)},
	}
}

// attempt is the desired state of a partition, with the outcome.
type attempt struct {
	cgroup.DesiredPartition
	cgroup.PartitionOutcome
}

// failure is a write that the kernel has refused, and the pause before the next attempt.
type failure struct {
	partition cgroup.DesiredPartition // zero if the write needs no partition
	why       string
	pause     time.Duration
	until     time.Time
}

// after begins the next, longer pause.
func (f *failure) after(why string, now time.Time) {
	f.why = why
	f.pause = min(max(2*f.pause, FirstPause), lastPause)
	f.until = now.Add(f.pause)
}

// Enabled reports whether owners become partitions.
func (p *Partitions) Enabled() bool {
	on, _ := p.Settings.Partitions(p.Host.Kernel)
	return on
}

func (p *Partitions) parks() bool { return p.Settings.Config.Park && p.Enabled() }

func (p *Partitions) inForce(at cgroup.Path) bool {
	return p.last[at].Phase == cgroup.PartitionInForce
}

// Has reports whether a container was a partition, which has to end before its cgroup.
func (p *Partitions) Has(container string) bool {
	e := p.Objects.Container(container)
	return e != nil && p.inForce(e.Path)
}

// Pending reports whether an owner is about to become a partition.
func (p *Partitions) Pending(t cgroup.Target) bool {
	return p.Enabled() && t.Partitionable() && !p.inForce(t.Path) && p.last[t.Path].Phase != cgroup.PartitionRefused
}

// IsSettled reports whether writes need no scan first: partitions and CPUs are settled.
func (p *Partitions) IsSettled() bool {
	for _, o := range p.last {
		if o.Phase != cgroup.PartitionInForce && o.Phase != cgroup.PartitionRefused {
			return false
		}
	}
	return (!p.stale || len(p.last) == 0) && !p.unowned.mayReturn() && len(p.stuck) == 0
}

// Untrimmed reports whether lists of parents may still have CPUs of a former partition.
func (p *Partitions) Untrimmed(at cgroup.Path) bool {
	return p.Journal.Originals.Has(at, cgroup.FilePartition) && (p.unowned.mayReturn() || !p.ended[at])
}

// Lost returns the online CPUs that have been in no cgroup for LeakTime.
func (p *Partitions) Lost() cpuset.Set { return p.unowned.lost }

// Parked returns the CPUs that were parked in the last scan.
func (p *Partitions) Parked() cpuset.Set { return p.parking.cpus }

// Mode returns how the exclusive CPUs of a container are isolated, for status and metrics.
func (p *Partitions) Mode(at cgroup.Path) noise.Mode {
	if p.inForce(at) {
		return noise.Mode("partition-" + string(p.last[at].Type))
	}
	return noise.CPUSet
}

// Counts returns the numbers of partitions of containers by outcome.
func (p *Partitions) Counts() map[string]int {
	counts := map[string]int{"root": 0, "isolated": 0, "underway": 0, "waits": 0, "refused": 0}
	for at, o := range p.last {
		if at == cgroup.Parking {
			continue
		}
		switch o.Phase {
		case cgroup.PartitionInForce:
			counts[string(o.Type)]++
		case cgroup.PartitionWaits, cgroup.PartitionRefused:
			counts[string(o.Phase)]++
		default:
			counts["underway"]++
		}
	}
	return counts
}

// Next calls earlier with the times at which partitions need another scan.
func (p *Partitions) Next(earlier func(time.Time)) {
	earlier(p.unowned.replan)
	for _, since := range p.unowned.since {
		earlier(since.Add(LeakTime))
	}
	earlier(p.waits.until)
	for _, of := range []map[cgroup.Path]failure{p.failures, p.stuck} {
		for f := range maps.Values(of) {
			earlier(f.until)
		}
	}
}
