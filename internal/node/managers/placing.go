package managers

import (
	"fmt"
	"slices"
	"strings"
)

// Annotations for the high-performance hooks of CRI-O (cri-o, pkg/annotations/v2). They
// apply to all containers of the pod or, with "/" and a name, to one. The first two make
// the hooks write cpusets.
const (
	loadBalancing = "cpu-load-balancing.crio.io"
	sharedCPUs    = "cpu-shared.crio.io"
	interrupts    = "irq-load-balancing.crio.io"
)

// Kind is a manager. Its value is the key of cpupoold's configuration for this manager.
type Kind string

// Kinds of managers.
const (
	CRIOWorkloads       Kind = "crioWorkloads"
	CRIOHighPerformance Kind = "crioHighPerformance"
	NRIPlugins          Kind = "nriPlugins"
	SystemPartition     Kind = "systemPartition"
)

// Container holds the properties of a container that decide which manager places it.
type Container struct {
	Name string
	// Annotations are the annotations of the pod sandbox.
	Annotations map[string]string
	// Handler is the runtime handler of the sandbox; empty for the default of the runtime.
	Handler string
	// WholeCPUs is true if the container requests whole CPUs in a Guaranteed pod.
	WholeCPUs bool
}

// Placing is the placement of a container by another manager.
type Placing struct {
	Kind Kind
	// By names the manager and its configuration, for messages.
	By string
	// Alone is true if the manager reserves the CPUs for the container.
	Alone bool
}

// Left is the journal's entry for a container that the daemon leaves to another manager. Files of earlier
// builds have no ID: then Left stands for all containers of that name.
type Left struct {
	PodUID    string `json:"podUID"`
	Container string `json:"container"`
	ID        string `json:"id,omitempty"` // CRI id
}

// ReadsAnnotation reports whether the methods of CRIO read the value of a pod annotation of
// this name, in any configuration. [CRIO.Placing] also looks up the activation annotations of
// the configured workloads.
func ReadsAnnotation(key string) bool {
	name, _, _ := strings.Cut(key, "/")
	return name == loadBalancing || name == sharedCPUs || name == interrupts
}

// Placing reports whether CRI-O places a container, and returns how.
func (c *CRIO) Placing(ctr Container) (Placing, bool) {
	workloads := c.workloadsOf(ctr)
	if i := slices.IndexFunc(workloads, func(w Workload) bool { return w.Pins }); i >= 0 {
		return Placing{Kind: CRIOWorkloads, By: fmt.Sprintf("CRI-O's workload %s (%s)", workloads[i].Name, workloads[i].Source)}, true
	}
	if !ctr.WholeCPUs {
		return Placing{}, false // the hooks skip the container
	}
	key := cpuAnnotation(ctr)
	if key == "" {
		return Placing{}, false
	}
	if by, does := c.allowingHandler(ctr, key); does {
		return Placing{Kind: CRIOHighPerformance, Alone: true, By: by}, true
	}
	return Placing{}, false
}

func (c *CRIO) workloadsOf(ctr Container) []Workload {
	return slices.DeleteFunc(slices.Clone(c.Workloads), func(w Workload) bool {
		_, of := ctr.Annotations[w.Activation]
		return w.Activation == "" || !of
	})
}

// allowingHandler reports whether a handler or workload lets an annotation reach CRI-O's hooks. by
// names the handler, for messages.
func (c *CRIO) allowingHandler(ctr Container, key string) (by string, found bool) {
	allowed := slices.ContainsFunc(c.workloadsOf(ctr), func(w Workload) bool { return permits(w.Allowed, key) })
	for _, name := range c.handlersOf(ctr) {
		i := slices.IndexFunc(c.Handlers, func(h Handler) bool { return h.Name == name })
		if allowed || i >= 0 && permits(c.Handlers[i].Allowed, key) {
			return fmt.Sprintf("CRI-O's high-performance hooks (runtime handler %q, annotation %s)", name, key), true
		}
	}
	return "", false
}

// Powers reports whether the hooks of CRI-O set the idle states or the governor of a
// container's CPUs, as the annotation key requests. They write them when the container
// starts, and restore them when it stops. By names the hooks, for messages.
func (c *CRIO) Powers(ctr Container, key string) (by string, does bool) {
	if !ctr.WholeCPUs {
		return "", false
	}
	return c.allowingHandler(ctr, key)
}

// MovesInterrupts reports whether the hooks of CRI-O move interrupts away from a
// container's CPUs. They write default_smp_affinity and the configuration of irqbalance
// when the container starts and when it stops. By names the hooks, for messages.
func (c *CRIO) MovesInterrupts(ctr Container) (by string, does bool) {
	key, value := effective(ctr, interrupts)
	if !ctr.WholeCPUs || value != "disable" && value != "true" && value != "housekeeping" {
		return "", false
	}
	return c.allowingHandler(ctr, key)
}

// handlersOf returns the possible handlers. Without a name, CRI-O uses crun (1.34) or runc (older);
// the files lack the version. A container without a manager is a smaller fault than one with two.
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

// Places reports whether the configuration lets CRI-O place containers.
func (c *CRIO) Places() bool {
	return slices.ContainsFunc(c.Workloads, func(w Workload) bool {
		return w.Activation != "" && (w.Pins || len(Handler{Allowed: w.Allowed}.SetsCPUs()) > 0)
	}) || slices.ContainsFunc(c.Handlers, func(h Handler) bool { return len(h.SetsCPUs()) > 0 })
}

// cpuAnnotation returns the annotation that makes the hooks write a cpuset, or "".
func cpuAnnotation(ctr Container) string {
	key, value := effective(ctr, loadBalancing)
	if value == "disable" || value == "true" {
		return key
	}
	if key, value = effective(ctr, sharedCPUs); value == "enable" {
		return key
	}
	return ""
}

// effective returns the annotation for the container, otherwise the one for its pod.
func effective(ctr Container, name string) (key, value string) {
	own := name + "/" + ctr.Name
	if value, ok := ctr.Annotations[own]; ok {
		return own, value
	}
	return name, ctr.Annotations[name]
}

// permits reports whether a key has one of the prefixes that CRI-O keeps.
func permits(allowed []string, key string) bool {
	return slices.ContainsFunc(allowed, func(a string) bool { return a != "" && strings.HasPrefix(key, a) })
}

// SetsCPUs returns the allowed annotations with which pods of a handler change their cpuset.
func (h Handler) SetsCPUs() (annotations []string) {
	for _, name := range []string{loadBalancing, sharedCPUs} {
		if permits(h.Allowed, name) {
			annotations = append(annotations, name)
		}
	}
	return annotations
}
