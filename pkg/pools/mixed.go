package pools

import (
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// # Mixed CPUs
//
// A container with exclusive CPUs may also run on shared CPUs, for threads that do only
// housekeeping. Assignments, problems and counts contain only its exclusive CPUs. The
// shared CPUs are the current shared pool, or a fixed list of CPUs that never become
// exclusive.

// Mixed selects shared CPUs for containers with exclusive CPUs, and the namespaces of these
// containers. The zero value allows none.
type Mixed struct {
	Shared     bool       // CPUs of the shared pool; CPUs must be empty then
	CPUs       cpuset.Set // a fixed list. None of them becomes exclusive
	Namespaces []string   // namespaces whose pods may request them; [EveryNamespace] stands for all
}

// EveryNamespace stands for all namespaces in Mixed.Namespaces.
const EveryNamespace = "*"

// On reports whether CPUs can be requested.
func (m *Mixed) On() bool { return m.Shared || !m.CPUs.IsEmpty() }

// Allows reports whether pods of a namespace may request shared CPUs.
func (m *Mixed) Allows(namespace string) bool {
	return slices.Contains(m.Namespaces, namespace) || slices.Contains(m.Namespaces, EveryNamespace)
}

// mixes reports whether a container gets shared CPUs in addition to exclusive CPUs.
func (c *classifier) mixes(p *Pod, container string) bool {
	asks, _, _ := c.in.Names.Mixed(p.Annotations, container)
	return asks && c.in.Pools.Mixed.Allows(p.Namespace)
}

// checkMixed reports the shared CPUs that a Guaranteed pod requests in addition to
// exclusive CPUs and does not get.
func (c *classifier) checkMixed(p *Pod) {
	if len(p.Annotations) == 0 {
		return
	}
	reported := "" // one report for two instances of a container
	for i := range p.Containers {
		name := p.Containers[i].Name
		asks, key, valid := c.in.Names.Mixed(p.Annotations, name)
		if p.Containers[i].Kind == Infra || key == "" || name == reported {
			continue
		}
		reported = name
		switch {
		case !valid:
			c.report(p, name, CodeSwitchInvalid, "annotation "+clip(key)+": "+clip(p.Annotations[key])+" is neither enable nor disable; it is ignored")
		case !asks:
		case len(c.in.Pools.Mixed.Namespaces) == 0:
			c.report(p, name, CodeSwitchIgnored, "annotation "+clip(key)+": this node adds no shared CPUs to exclusive CPUs (guaranteed.mixed)")
		case !c.in.Pools.Mixed.Allows(p.Namespace):
			c.report(p, name, CodeMixedNotAllowed, "annotation "+clip(key)+": namespace "+clip(p.Namespace)+" is not among those in guaranteed.mixed.namespaces; the container has only its exclusive CPUs")
		case !c.in.Pools.Mixed.Shared && c.in.Pools.Mixed.CPUs.IsEmpty():
			c.report(p, name, CodeSwitchIgnored, "annotation "+clip(key)+": no CPU in guaranteed.mixed.cpus is available; the container has only its exclusive CPUs")
		}
	}
}

func (b *placer) mix(at *Placement) {
	if at.Mixed = b.ofShared; !b.pools.Mixed.Shared {
		at.Mixed = b.pools.Mixed.CPUs.Difference(b.taken)
	}
	if !at.Mixed.IsEmpty() {
		at.Reason.Text += ", with shared CPUs in addition"
	}
}
