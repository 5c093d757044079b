package choice

import (
	"errors"
	"fmt"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// Pick is a request for CPUs.
type Pick struct {
	Topology *topology.Topology
	Free     cpuset.Set
	Request  allocate.Request
}

// ErrFragments is wrapped when we refuse full-pcpus-only where the kubelet takes
// parts of cores.
var ErrFragments = errors.New("the kubelet splits cores under full-pcpus-only; we refuse")

// ErrNotFree is wrapped when the kubelet allocates CPUs that are not free. It treats a
// core as whole if its number of free CPUs is the average of all cores, and then takes
// all its CPUs. That happens on hybrid machines.
var ErrNotFree = errors.New("the kubelet takes CPUs that are not free")

// ErrTrade is wrapped when ours is worse in something, and better in something
// that counts more.
var ErrTrade = errors.New("a fair trade")

// Take is our answer.
func (p Pick) Take() (cpuset.Set, error) {
	got, err := allocate.New(p.Topology).Supply(p.Free).Take(p.Request)
	if err == nil && (got.Len() != p.Request.CPUs || !got.IsSubsetOf(p.Free)) {
		return got, fmt.Errorf("takes %s; want %d CPUs of %s", got, p.Request.CPUs, p.Free)
	}
	return got, err
}

// Check compares our answer with the kubelet's, which is theirs or refused. It returns
// nil if we refuse the same requests and are worse in nothing. The caller decides about
// ErrFragments, ErrNotFree and ErrTrade.
func (p Pick) Check(theirs cpuset.Set, refused error) error {
	got, err := p.Take()
	var refusal *allocate.Refusal
	if err != nil && !errors.As(err, &refusal) {
		return err
	}
	if refused != nil {
		if err == nil {
			return fmt.Errorf("takes %s where the kubelet refuses: %w", got, refused)
		}
		return nil
	}
	if theirs.Len() != p.Request.CPUs || !theirs.IsSubsetOf(p.Free) {
		return fmt.Errorf("%d CPUs of %s cannot be %s: %w", p.Request.CPUs, p.Free, theirs, ErrNotFree)
	}
	counts := Count(p.Topology, theirs)
	fragments := p.Request.Options.FullPCPUsOnly && counts.Split > 0
	if err != nil {
		if fragments {
			return fmt.Errorf("%w: %w", ErrFragments, refusal)
		}
		return fmt.Errorf("refuses where the kubelet takes %s: %w", theirs, refusal)
	}
	options := p.Request.Options
	even, theirsEven := p.even(got), p.even(theirs)
	if !even && !theirsEven && !options.AlignBySocket {
		options.DistributeCPUsAcrossNUMA = false // both are packed: no nodes can give even shares
	}
	worse, trade := Worse(options, Count(p.Topology, got), counts)
	if a, b := p.hinted(got), p.hinted(theirs); a < b && !fragments {
		worse, trade = append(worse, fmt.Sprintf("%d CPUs on the hinted nodes instead of %d", a, b)), false
	}
	if p.Request.Options.DistributeCPUsAcrossNUMA && p.hintedNodes(got) > p.hintedNodes(theirs) {
		trade = len(worse) > 0 // the devices are in all hinted nodes (kubernetes#139430)
	}
	if options.DistributeCPUsAcrossNUMA && (fragments || even && !theirsEven) {
		trade = len(worse) > 0 // whole cores come first, then shares that are even to a CPU
	}
	switch {
	case trade:
		return fmt.Errorf("takes %s where the kubelet takes %s: %q: %w", got, theirs, worse, ErrTrade)
	case len(worse) > 0:
		return fmt.Errorf("takes %s where the kubelet takes %s: %q", got, theirs, worse)
	}
	return nil
}

// even reports whether each node that has some of the CPUs has at least an even share, rounded
// down to CPUs, or with full-pcpus-only to the threads of a core.
func (p Pick) even(cpus cpuset.Set) bool {
	unit, nodes, least := 1, 0, cpus.Len()
	if p.Request.Options.FullPCPUsOnly {
		unit = allocate.New(p.Topology).Group()
	}
	for _, node := range p.Topology.Nodes {
		if n := node.CPUs.Intersection(cpus).Len(); n > 0 {
			nodes, least = nodes+1, min(least, n)
		}
	}
	return nodes > 0 && least >= cpus.Len()/unit/nodes*unit
}

// hintedNodes returns the number of hinted nodes that have some of the CPUs.
func (p Pick) hintedNodes(cpus cpuset.Set) int {
	n := 0
	for _, node := range p.Topology.Nodes {
		if p.Request.Nodes.Contains(node.ID) && node.CPUs.Overlaps(cpus) {
			n++
		}
	}
	return n
}

// hinted is the number of CPUs that are on the nodes of the request, or under
// align-by-socket on their sockets, as for the kubelet.
func (p Pick) hinted(cpus cpuset.Set) int {
	hinted := cpuset.Set{}
	for _, node := range p.Topology.Nodes {
		if p.Request.Nodes.Contains(node.ID) {
			hinted = hinted.Union(node.CPUs)
		}
	}
	if p.Request.Options.AlignBySocket {
		nodes := hinted
		for _, pkg := range p.Topology.Packages {
			if !pkg.CPUs.Intersection(nodes).IsEmpty() {
				hinted = hinted.Union(pkg.CPUs)
			}
		}
	}
	return hinted.Intersection(cpus).Len()
}
