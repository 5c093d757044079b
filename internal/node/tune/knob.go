package tune

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Kind is a kind of knob.
type Kind string

// The kinds with a set of CPUs as the value, in the list format of the kernel
// ([cpuset.Set.String]), for any format of the file. A pass writes them in this order: the
// mask of new interrupts first, then irqbalance, which could overwrite the rest.
const (
	// DefaultAffinity is /proc/irq/default_smp_affinity, the mask of new interrupts.
	DefaultAffinity Kind = "default-affinity"
	// IRQBalance contains the banned CPUs of irqbalance. The mask is all other CPUs.
	IRQBalance Kind = "irqbalance"
	// IRQ is /proc/irq/N/smp_affinity_list; the name is N.
	IRQ Kind = "irq"
	// RPS is rps_cpus of a receive queue; the name is INTERFACE/rx-N.
	RPS Kind = "rps"
	// Workqueue is /sys/devices/virtual/workqueue/cpumask.
	Workqueue Kind = "workqueue"
	// KThread is the affinity of a kernel thread; the name is its PID.
	KThread Kind = "kthread"
)

// maskKinds returns the kinds with a set of CPUs as the value, in the order of changes.
func maskKinds() []Kind { return []Kind{DefaultAffinity, IRQBalance, IRQ, RPS, Workqueue, KThread} }

func (k Kind) isMask() bool { return slices.Contains(maskKinds(), k) }

// Knob names one value of the host.
type Knob struct {
	Kind Kind   `json:"kind"`
	Name string `json:"name,omitempty"`
}

// String returns kind/name, or the kind of a knob without a name.
func (k Knob) String() string {
	if k.Name == "" {
		return string(k.Kind)
	}
	return string(k.Kind) + "/" + k.Name
}

// compare sorts knobs in the order of changes, and names that are numbers by number.
func compare(a, b Knob) int {
	rank := func(k Kind) int {
		if i := slices.Index(maskKinds(), k); i >= 0 {
			return i
		}
		return len(maskKinds())
	}
	x, xErr := strconv.Atoi(a.Name)
	y, yErr := strconv.Atoi(b.Name)
	byNumber := 0
	if xErr == nil && yErr == nil {
		byNumber = cmp.Compare(x, y)
	}
	return cmp.Or(cmp.Compare(rank(a.Kind), rank(b.Kind)), strings.Compare(string(a.Kind), string(b.Kind)), byNumber, strings.Compare(a.Name, b.Name))
}

// Observed is a knob with its present value.
type Observed struct {
	Knob
	// ID distinguishes objects that had the same name one after the other.
	ID    string
	Value string
	// Default is the kernel's default on this machine, in the format of Value; empty for all
	// CPUs. It replaces an unknown original.
	Default string
	// Label describes the knob to people: the devices of an interrupt, the name of a thread.
	Label string
	// Unused is true if the knob has no effect now, such as the mask of an interrupt without
	// a device. A failed write is then not reported.
	Unused bool
	// Asleep is true if the knob can be neither read nor written, but keeps its value: the
	// frequency settings of offline CPUs. Then only Knob is set.
	Asleep bool
	// Near contains the CPUs of an interrupt's NUMA node, in list format; empty for all.
	Near string
}

// Record holds the value of a knob from before the daemon changed it.
type Record struct {
	Knob
	ID string `json:"id,omitempty"`
	// Original is the value before the daemon. Wrote is the last value that the daemon
	// wrote. It equals Original if the knob needed no change.
	Original string `json:"original"`
	Wrote    string `json:"wrote"`
	// Before is the value that Wrote is about to replace. It is empty after Wrote was read
	// back. After a crash in between, the knob has one of the two values.
	Before string `json:"before,omitempty"`
	// Presumed is true if the original is unknown and Original is the kernel's default.
	Presumed bool `json:"presumed,omitempty"`
}

// Change is a value to write.
type Change struct {
	Knob
	ID    string `json:"id,omitempty"`
	Label string `json:"label,omitempty"`
	From  string `json:"from"`
	To    string `json:"to"`
	// Back is true if the change restores the knob, because no value is desired any longer.
	Back bool `json:"back,omitempty"`
	// Foreign is true after an external write.
	Foreign bool `json:"foreign,omitempty"`
	// Presumed is true if To is the kernel's default, because the original is unknown.
	Presumed bool `json:"presumed,omitempty"`
}

// Why is the reason why a knob does not have its desired value.
type Why string

// The reasons.
const (
	// Immovable means that the kernel always refuses: the driver manages the interrupt, the
	// interrupt or thread is bound, or the controller has one target.
	Immovable Why = "immovable"
	// NoSpace means that the target CPUs have no free interrupt vector.
	NoSpace Why = "no-space"
	// Busy means that an earlier change is pending.
	Busy Why = "busy"
	// NoCPULeft means that all online CPUs are excluded.
	NoCPULeft Why = "no-cpu-left"
	// Contested means a write conflict with another process.
	Contested Why = "contested"
	// NotTaken means that the kernel accepted the value but shows another one.
	NotTaken Why = "not-taken"
	// Failed means any other error.
	Failed Why = "failed"
)

// Stuck is a knob that does not have its desired value.
type Stuck struct {
	Knob
	Label string `json:"label,omitempty"`
	Value string `json:"value"`
	Why   Why    `json:"why"`
	// Text describes the failure.
	Text string `json:"text"`
}

// Desired holds the desired state of the host's settings.
type Desired struct {
	// Quiet contains the CPUs without interrupts of devices.
	Quiet cpuset.Set
	// NoKernel contains the CPUs without kernel threads and unbound kernel work.
	NoKernel cpuset.Set
	// Values contains the values of knobs that are not masks.
	Values map[Knob]string
}

// Empty reports whether no knob has a desired value.
func (w Desired) Empty() bool { return w.Quiet.IsEmpty() && w.NoKernel.IsEmpty() && len(w.Values) == 0 }

// Equal reports whether w and o are the same.
func (w Desired) Equal(o Desired) bool {
	return w.Quiet.Equal(o.Quiet) && w.NoKernel.Equal(o.NoKernel) && maps.Equal(w.Values, o.Values)
}

func (w Desired) excluded(k Kind) cpuset.Set {
	switch k {
	case Workqueue, KThread:
		return w.NoKernel
	default:
		return w.Quiet
	}
}

// Machine holds the possible and the online CPUs.
type Machine struct{ Possible, Online cpuset.Set }
