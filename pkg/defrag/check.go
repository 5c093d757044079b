package defrag

import (
	"errors"
	"fmt"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Check returns why an owner must not be moved from CPUs to others, nil if it may. The owner
// must have exactly the CPUs from. The CPUs to must be as many, in the pool, free or
// its own, and allowed by its options. A move that improves nothing is allowed: the caller
// may have reasons.
func Check(in Input, key pools.Key, from, to cpuset.Set) error {
	n := newNode(in)
	i := n.find(key)
	if i == noOwner {
		return errors.New("has no exclusive CPUs")
	}
	o := &n.owners[i]
	switch {
	case o.Fixed != "":
		return fmt.Errorf("must stay where it is: %s", o.Fixed)
	case !o.CPUs.Equal(from):
		return fmt.Errorf("has CPUs %s and not %s: something has changed; ask for a new report", o.CPUs, from)
	case to.Equal(from):
		return fmt.Errorf("is on CPUs %s already", to)
	case to.Len() != from.Len():
		return fmt.Errorf("has %d CPUs and cannot be moved to %d (%s)", from.Len(), to.Len(), to)
	case !to.IsSubsetOf(n.pool):
		return fmt.Errorf("cannot have CPU %s: not in the guaranteed pool (%s)", to.Difference(n.pool), n.pool)
	case !to.IsSubsetOf(n.available(i)):
		return fmt.Errorf("cannot have CPU %s: not free", to.Difference(n.available(i)))
	}
	return n.checkOptions(i, to)
}

// checkOptions returns why the options of owner i do not allow cpus.
func (n *node) checkOptions(i int, cpus cpuset.Set) error {
	o := n.owners[i]
	if o.Options.OneOwnerPerCore {
		cores := n.coresOf(cpus)
		if taken := cores.Difference(n.pool.Difference(n.others(i))); !taken.IsEmpty() {
			return fmt.Errorf("cannot have CPUs %s: another owner or pool may use CPU %s of the same cores (one-owner-per-core)", cpus, taken)
		}
		if n.idleBeside(cpus) > n.idleBeside(n.at[i]) {
			return fmt.Errorf("cannot have CPUs %s: more CPUs of their cores would be idle than now (one-owner-per-core)", cpus)
		}
		o.Options.OneOwnerPerCore = false // the rest is a matter of cpus alone
	}
	_, err := n.machine.Supply(cpus).Take(allocate.Request{CPUs: cpus.Len(), Nodes: o.Nodes, Options: o.Options})
	if refusal, ok := errors.AsType[*allocate.Refusal](err); ok {
		return fmt.Errorf("cannot have CPUs %s: %s", cpus, refusal.Why)
	}
	return err
}
