package pools

import (
	"fmt"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// # Mixed CPUs
//
// A container that has CPUs of its own may run on some that it shares with others
// beside them, for threads that do no more than housekeeping. Its own stay its own:
// they alone are assigned, counted and held. The others are those of the shared pool as
// it is at the moment, or a fixed list of which nobody ever gets one for himself.

// Mixed says which CPUs containers may have beside their own, and whose. The zero value
// lets nobody.
type Mixed struct {
	Shared     bool       // those of the shared pool; CPUs must be empty then
	CPUs       cpuset.Set // a fixed list. No container can have one of them for itself
	Namespaces []string   // those whose pods may ask; [EveryNamespace] stands for all
}

// EveryNamespace is what stands for all of them in Mixed.Namespaces.
const EveryNamespace = "*"

// On says that there are CPUs to ask for.
func (m *Mixed) On() bool { return m.Shared || !m.CPUs.IsEmpty() }

func (m *Mixed) allows(namespace string) bool {
	return slices.Contains(m.Namespaces, namespace) || slices.Contains(m.Namespaces, EveryNamespace)
}

// mixes says whether a container gets shared CPUs beside its own, once it has some.
func (c *classifier) mixes(p *Pod, container string) bool {
	asks, _, _ := c.in.Names.Mixed(p.Annotations, container)
	return asks && c.in.Pools.Mixed.allows(p.Namespace)
}

// checkMixed reports what a Guaranteed pod asks for beside CPUs of its own and does not
// get.
func (c *classifier) checkMixed(p *Pod) {
	if len(p.Annotations) == 0 {
		return
	}
	told := "" // of two instances of a container one is told
	for i := range p.Containers {
		name := p.Containers[i].Name
		asks, key, valid := c.in.Names.Mixed(p.Annotations, name)
		if p.Containers[i].Kind == Infra || key == "" || name == told {
			continue
		}
		told = name
		switch {
		case !valid:
			c.report(p, name, CodeSwitchInvalid, "annotation "+clip(key)+": "+clip(p.Annotations[key])+" is neither enable nor disable; it is ignored")
		case !asks:
		case len(c.in.Pools.Mixed.Namespaces) == 0:
			c.report(p, name, CodeSwitchIgnored, "annotation "+clip(key)+": containers get no shared CPUs beside their own on this node (guaranteed.mixed)")
		case !c.in.Pools.Mixed.allows(p.Namespace):
			c.report(p, name, CodeMixedNotAllowed, "annotation "+clip(key)+": namespace "+clip(p.Namespace)+" is not among those in guaranteed.mixed.namespaces; the container has its own CPUs alone")
		case !c.in.Pools.Mixed.Shared && c.in.Pools.Mixed.CPUs.IsEmpty():
			c.report(p, name, CodeSwitchIgnored, "annotation "+clip(key)+": none of the CPUs in guaranteed.mixed.cpus is there at the moment; the container has its own CPUs alone")
		}
	}
}

// mix lets a container that has CPUs of its own run on shared ones too.
func (b *placer) mix(at *Placement) {
	if at.Mixed = b.ofShared; !b.pools.Mixed.Shared {
		at.Mixed = b.pools.Mixed.CPUs.Difference(b.taken)
	}
	if !at.Mixed.IsEmpty() {
		at.Reason.Text += ", and shared ones beside them"
	}
}

// checkMixed checks what can be wrong with the key on any machine.
func (r *resolver) checkMixed(g GuaranteedSpec) {
	m := &g.Mixed
	switch {
	case m.Shared && !m.CPUs.IsEmpty():
		r.report(mixedCPUsKey, m.CPUs.String(), "shared and a list at once; choose one of them")
	case !m.On() && len(m.Namespaces) > 0:
		r.report(mixedKey, "", "names namespaces and no CPUs; write which CPUs containers may have beside their own: shared, or a list")
	case m.On() && len(m.Namespaces) == 0:
		r.report(mixedNamespacesKey, "", `names nobody, so that nobody gets any; list the namespaces whose pods may ask, or "%s" for all`, EveryNamespace)
	case m.On() && g.CPUs.IsEmpty() && !g.FromShared:
		r.report(mixedKey, "", "is for containers that have CPUs of their own, and nobody gets any here; configure guaranteed.cpus or guaranteed.from, or remove it")
	}
	for i, ns := range m.Namespaces {
		field := fmt.Sprintf("%s[%d]", mixedNamespacesKey, i)
		switch earlier := slices.Index(m.Namespaces, ns); {
		case ns != EveryNamespace && !isLabel(ns):
			r.report(field, ns, `not the name of a namespace; write each name in full, or "%s" alone for all`, EveryNamespace)
		case earlier < i:
			r.report(field, ns, "listed twice; remove one")
		case ns == EveryNamespace && len(m.Namespaces) > 1:
			r.report(field, ns, "stands for all namespaces; remove the others")
		}
	}
}

// checkMixedList checks the list against the machine and the guaranteed pool. It may be part of
// another pool.
func (r *resolver) checkMixedList(s Spec) {
	l := list{field: mixedCPUsKey, cpus: s.Guaranteed.Mixed.CPUs}
	if l.cpus.IsEmpty() {
		return
	}
	if r.checkPresent(l); l.cpus.IsSubsetOf(r.topology.Present) {
		r.checkRuns(l)
	}
	r.checkDisjoint(l, list{field: guaranteedKey, cpus: s.Guaranteed.CPUs})
}
