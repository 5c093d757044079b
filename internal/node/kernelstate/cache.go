package kernelstate

import (
	"log/slog"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// Kernel reads cgroups, as [cgroup.Reader] does.
type Kernel interface {
	// Read returns all files of a cgroup.
	Read(p cgroup.Path) (cgroup.State, error)
	// Check returns the state of a cgroup with watched files. It reads only the values that
	// the kernel changes without a notice.
	Check(before cgroup.State) (cgroup.State, error)
	// Gather moves the threads of a cgroup to its CPUs, or a bounded part of them.
	Gather(p cgroup.Path) (cgroup.Gathered, error)
	// Rest releases the open files.
	Rest()
}

// Cache holds the last known state of the cgroups of the plan.
type Cache struct {
	Writes  *OwnWrites
	Threads *Threads

	kernel   Kernel
	current  map[cgroup.Path]cgroup.Current
	known    []cgroup.Path // the targets of the last Refresh that dropped cgroups
	stale    map[cgroup.Path]bool
	external []ExternalWrite

	watched  func(cgroup.State) bool // whether writes to a cgroup cause notices; set from Recheck to Refresh
	rechecks uint64
	turns    uint64 // number of rechecks that read each cgroup once
}

// New returns an empty Cache.
func New(k Kernel, log *slog.Logger) *Cache {
	t := &Cache{kernel: k, current: make(map[cgroup.Path]cgroup.Current), stale: make(map[cgroup.Path]bool)}
	t.Writes = &OwnWrites{make(map[cgroup.Path]int), make(map[cgroup.Path]*written), make(map[cgroup.Path]bool)}
	t.Threads = newThreads(k, t.Has, log)
	return t
}

// Has reports whether the cache holds a state of p.
func (t *Cache) Has(p cgroup.Path) bool {
	_, ok := t.current[p]
	return ok
}

// Current returns the last known state of p. The zero value means unknown.
func (t *Cache) Current(p cgroup.Path) cgroup.Current { return t.current[p] }

// State reads a cgroup now. The cache stays as it is, so that the next Refresh still finds
// external writes.
func (t *Cache) State(p cgroup.Path) (cgroup.State, error) {
	defer t.kernel.Rest()
	return t.kernel.Read(p)
}

// Diff returns the writes that bring the targets from their known state to the desired one.
// States in marked replace known ones.
func (t *Cache) Diff(want []cgroup.Target, marked map[cgroup.Path]cgroup.Current, o cgroup.Options) ([]cgroup.Write, []cgroup.Deferred) {
	return cgroup.Diff(want, t.current, o, marked)
}

// IsStale reports whether the next Refresh reads p again.
func (t *Cache) IsStale(p cgroup.Path) bool { return t.stale[p] }

// HasStale reports whether the next Refresh reads any cgroup again.
func (t *Cache) HasStale() bool { return len(t.stale) > 0 }

// Invalidate makes the next Refresh read p again.
func (t *Cache) Invalidate(p cgroup.Path) { t.stale[p] = true }

// invalidateBelow makes the next Refresh read the cgroups in a slice, whose CPUs limit them.
// Otherwise they would wait for the resync.
func (t *Cache) invalidateBelow(slice cgroup.Path) {
	if slice.Parent().InPod() {
		return // a container, which contains no target
	}
	for p := range t.current {
		if strings.HasPrefix(string(p), string(slice)+"/") {
			t.stale[p] = true
		}
	}
}

// InvalidateAll makes the next Refresh read every cgroup again.
func (t *Cache) InvalidateAll() {
	for p := range t.current {
		t.stale[p] = true
	}
}

// InvalidateUnreachable makes the next Refresh read the targets that need CPUs which their parents
// lacked at the last reading. When a partition ends, the kernel gives its CPUs back to the parents without
// a notice of the other cgroups in them.
func (t *Cache) InvalidateUnreachable(targets []cgroup.Target) {
	for i := range targets {
		want := &targets[i]
		if c := t.current[want.Path]; c.Exists && !c.CPUs.Equal(want.CPUs) && !want.CPUs.IsSubsetOf(c.ParentEffective) {
			t.stale[want.Path] = true
		}
	}
}

// RunsOutside returns a function that reports whether a cgroup runs on CPUs outside its target:
// exclusive CPUs of an owner, or CPUs of another pool. The rule is the same for all pools. An
// application container on management CPUs delays the services of the node. A management
// container on shared CPUs delays applications, and an owner on shared CPUs has lost its isolation.
func (t *Cache) RunsOutside(targets []cgroup.Target) func(cgroup.Path) bool {
	return func(p cgroup.Path) bool {
		for i := range targets {
			if want := &targets[i]; want.Path == p {
				return !want.CPUs.IsEmpty() && !t.Current(p).Effective.IsSubsetOf(want.CPUs)
			}
		}
		return false
	}
}

// Forget drops the state of p, with the records of its container.
func (t *Cache) Forget(p cgroup.Path) { delete(t.current, p) }

// NoteReading compares st, read after a notice of a write, with the last reading. The reading is
// expected if it holds the same values, or the CPUs of an own write in progress. Then the cache
// records the CPUs on which the cgroup runs, and moved reports whether they differ. A reading that
// overlaps with a write can mix values from before and after it, and the effective CPUs decide
// whether a cgroup uses CPUs of another owner.
func (t *Cache) NoteReading(st cgroup.State) (expected, moved bool) {
	c, known := t.current[st.Path]
	was := c.State
	if t.Writes.IsBusy(st.Path) && st.CPUs.Equal(c.Pending) {
		was.CPUs = c.Pending
	}
	expected = sameRequests(was, st)
	if moved = expected && known && !c.Effective.Equal(st.Effective); moved {
		c.Effective = st.Effective
		t.current[st.Path] = c
	}
	return expected, moved
}
