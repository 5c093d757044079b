package managers

import (
	"fmt"
	"slices"
	"strings"
)

// Annotations with which a pod asks CRI-O's high-performance hooks to write the CPUs of
// its containers (cri-o, pkg/annotations/v2): each for all containers of the pod or, with
// "/" and a name, for one. Those for quota, IRQs, C-states and frequency leave the cpuset
// alone.
const (
	loadBalancing = "cpu-load-balancing.crio.io"
	sharedCPUs    = "cpu-shared.crio.io"
	interrupts    = "irq-load-balancing.crio.io"
)

// Kind is a manager, by the key of the configuration that is about it.
type Kind string

// The managers that are known.
const (
	CRIOWorkloads       Kind = "crioWorkloads"
	CRIOHighPerformance Kind = "crioHighPerformance"
	NRIPlugins          Kind = "nriPlugins"
)

// Container is what a claim depends on.
type Container struct {
	Name string
	// Annotations are those of the pod's sandbox, and Handler its runtime handler, empty
	// for the runtime's default.
	Annotations map[string]string
	Handler     string
	// WholeCPUs says that it asks for whole CPUs in a Guaranteed pod.
	WholeCPUs bool
}

// Claim is a container that another manager places.
type Claim struct {
	Kind Kind
	// By names the manager, for people, with the file that says so.
	By string
	// Alone says that the manager means its CPUs to be nobody else's.
	Alone bool
}

// Claim tells whether CRI-O places a container, and as what.
func (c *CRIO) Claim(ctr Container) (Claim, bool) {
	workloads := c.workloadsOf(ctr)
	if i := slices.IndexFunc(workloads, func(w Workload) bool { return w.Pins }); i >= 0 {
		return Claim{Kind: CRIOWorkloads, By: fmt.Sprintf("CRI-O's workload %s (%s)", workloads[i].Name, workloads[i].Source)}, true
	}
	if !ctr.WholeCPUs {
		return Claim{}, false // the hooks leave it alone, whatever it asks for
	}
	key := asksForCPUs(ctr)
	if key == "" {
		return Claim{}, false
	}
	if by, does := c.hooks(ctr, key); does {
		return Claim{Kind: CRIOHighPerformance, Alone: true, By: by}, true
	}
	return Claim{}, false
}

// workloadsOf are those that a container's pod is of.
func (c *CRIO) workloadsOf(ctr Container) []Workload {
	return slices.DeleteFunc(slices.Clone(c.Workloads), func(w Workload) bool {
		_, of := ctr.Annotations[w.Activation]
		return w.Activation == "" || !of
	})
}

// hooks tells whether CRI-O's hooks see an annotation of a container's pod: CRI-O drops
// those that neither the runtime handler nor a workload allows. By names them.
func (c *CRIO) hooks(ctr Container, key string) (by string, see bool) {
	allowed := slices.ContainsFunc(c.workloadsOf(ctr), func(w Workload) bool { return permits(w.Allowed, key) })
	for _, name := range c.handlersOf(ctr) {
		i := slices.IndexFunc(c.Handlers, func(h Handler) bool { return h.Name == name })
		if allowed || i >= 0 && permits(c.Handlers[i].Allowed, key) {
			return fmt.Sprintf("CRI-O's high-performance hooks (runtime handler %q, annotation %s)", name, key), true
		}
	}
	return "", false
}

// Powers tells whether CRI-O's hooks set the idle states or the governor of a container's
// CPUs, for which the annotation key asks: they do so when it starts, and take it back when
// it stops. By names who does it, for people.
func (c *CRIO) Powers(ctr Container, key string) (by string, does bool) {
	if !ctr.WholeCPUs {
		return "", false
	}
	return c.hooks(ctr, key)
}

// MovesInterrupts tells whether CRI-O's hooks keep interrupts off a container's CPUs: they
// write default_smp_affinity and irqbalance's configuration when it starts and when it
// stops. By names who does it, for people.
func (c *CRIO) MovesInterrupts(ctr Container) (by string, does bool) {
	key, value := effective(ctr, interrupts)
	if !ctr.WholeCPUs || value != "disable" && value != "true" && value != "housekeeping" {
		return "", false
	}
	return c.hooks(ctr, key)
}

// handlersOf are the runtime handlers that a container may have. Where neither its pod
// nor a file names one it is the one built into CRI-O: crun in 1.34 (pkg/config,
// DefaultRuntime), runc in older versions. Which version it is the files do not tell,
// and of a container that is wrongly left alone less is lost than of one that two place.
func (c *CRIO) handlersOf(ctr Container) []string {
	switch {
	case ctr.Handler != "":
		return []string{ctr.Handler}
	case c.DefaultRuntime != "":
		return []string{c.DefaultRuntime}
	default:
		return []string{"crun", "runc"}
	}
}

// Places says that there may be containers that CRI-O places.
func (c *CRIO) Places() bool {
	return slices.ContainsFunc(c.Workloads, func(w Workload) bool {
		return w.Activation != "" && (w.Pins || len(Handler{Allowed: w.Allowed}.SetsCPUs()) > 0)
	}) || slices.ContainsFunc(c.Handlers, func(h Handler) bool { return len(h.SetsCPUs()) > 0 })
}

// asksForCPUs is the annotation by which a container asks for what changes its cpuset,
// empty if it asks for nothing of the kind.
func asksForCPUs(ctr Container) string {
	key, value := effective(ctr, loadBalancing)
	if value == "disable" || value == "true" {
		return key
	}
	if key, value = effective(ctr, sharedCPUs); value == "enable" {
		return key
	}
	return ""
}

// effective is the container's own annotation where there is one, else its pod's.
func effective(ctr Container, name string) (key, value string) {
	own := name + "/" + ctr.Name
	if value, ok := ctr.Annotations[own]; ok {
		return own, value
	}
	return name, ctr.Annotations[name]
}

// permits says that CRI-O does not drop an annotation: allowed are the beginnings of
// those that it keeps.
func permits(allowed []string, key string) bool {
	return slices.ContainsFunc(allowed, func(a string) bool { return a != "" && strings.HasPrefix(key, a) })
}

// SetsCPUs says that pods of a handler can ask for what changes their cpuset, and by
// which annotations.
func (h Handler) SetsCPUs() (annotations []string) {
	for _, name := range []string{loadBalancing, sharedCPUs} {
		if permits(h.Allowed, name) {
			annotations = append(annotations, name)
		}
	}
	return annotations
}
