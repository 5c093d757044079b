package kernelstate

import (
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// ExternalWrite is a write by another process, found by reading the cgroup.
type ExternalWrite struct {
	Target cgroup.Target
	Before cgroup.Current
	After  cgroup.State
}

// TakeExternal returns the external writes since the last call.
func (t *Cache) TakeExternal() []ExternalWrite {
	found := t.external
	t.external = nil
	return found
}

// compare records an external write if st differs from c and own writes are not the reason.
func (t *Cache) compare(target *cgroup.Target, c *cgroup.Current, st cgroup.State) {
	before, external := t.Writes.since[target.Path].external(*c, st)
	if !external {
		return
	}
	t.external = append(t.external, ExternalWrite{*target, before, st})
	if !st.CPUs.Equal(before.CPUs) {
		c.RecordedKnown = false // the process may have changed the record too
	}
}

// external returns c with the values of st where own writes can be the reason.
func (o *written) external(c cgroup.Current, st cgroup.State) (before cgroup.Current, external bool) {
	if o == nil || !o.persisted {
		return c, !sameRequests(c.State, st)
	}
	if o.incomplete {
		return c, false
	}
	before = c
	before.State, external = o.externalCPUs(c.State, st)
	if c.Inner != nil && st.Inner != nil {
		inner, differs := o.externalCPUs(*c.Inner, *st.Inner)
		before.Inner, external = &inner, external || differs
	}
	return before, external
}

// externalCPUs returns st, and true if no own write can have changed the CPUs.
func (o *written) externalCPUs(was, st cgroup.State) (cgroup.State, bool) {
	if st.CPUs.Equal(was.CPUs) || slices.ContainsFunc(o.cpus, st.CPUs.Equal) {
		return st, false
	}
	st.CPUs = was.CPUs
	return st, true
}

// sameRequests compares the files that processes write.
func sameRequests(a, b cgroup.State) bool {
	if a.HasCPUSet != b.HasCPUSet || a.HasCPU != b.HasCPU || !a.CPUs.Equal(b.CPUs) || !a.Mems.Equal(b.Mems) ||
		a.Partition != b.Partition || a.Weight != b.Weight || a.Idle != b.Idle || a.Quota != b.Quota || a.Period != b.Period {
		return false
	}
	if a.Inner == nil || b.Inner == nil {
		return a.Inner == b.Inner
	}
	return sameRequests(*a.Inner, *b.Inner)
}
