package tune

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Kind is a sort of knob.
type Kind string

// The kinds whose value is a set of CPUs, in the list format of the kernel
// ([cpuset.Set.String]), whatever the format of their file. Changes are made in this
// order: what decides about new interrupts first, then who would write over the rest.
const (
	// DefaultAffinity is /proc/irq/default_smp_affinity: where interrupts go that are
	// set up from now on.
	DefaultAffinity Kind = "default-affinity"
	// IRQBalance is what the irqbalance daemon is told to leave alone: its banned CPUs,
	// so that the value is all others.
	IRQBalance Kind = "irqbalance"
	// IRQ is /proc/irq/N/smp_affinity_list; the name is N.
	IRQ Kind = "irq"
	// RPS is rps_cpus of a receive queue; the name is INTERFACE/rx-N.
	RPS Kind = "rps"
	// Workqueue is /sys/devices/virtual/workqueue/cpumask.
	Workqueue Kind = "workqueue"
	// KThread is the affinity of a thread of the kernel; the name is its PID.
	KThread Kind = "kthread"
)

// maskKinds are the kinds whose value is a set of CPUs, in the order of changes.
func maskKinds() []Kind { return []Kind{DefaultAffinity, IRQBalance, IRQ, RPS, Workqueue, KThread} }

// isMask says that the value of a knob of this kind is a set of CPUs.
func (k Kind) isMask() bool { return slices.Contains(maskKinds(), k) }

// Knob names one value of the host.
type Knob struct {
	Kind Kind   `json:"kind"`
	Name string `json:"name,omitempty"`
}

// String is kind/name.
func (k Knob) String() string {
	if k.Name == "" {
		return string(k.Kind)
	}
	return string(k.Kind) + "/" + k.Name
}

// compare orders knobs as they are changed; numbers in names count as such.
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

// Observed is a knob as the host shows it.
type Observed struct {
	Knob
	// ID tells whether what bears the name is still the same: names are used again.
	ID string
	// Value is what it holds now.
	Value string
	// Default is what the kernel makes of it as the machine has booted, like Value; empty
	// for all CPUs. It counts where nobody knows what it was.
	Default string
	// Label is for people: the devices of an interrupt, the name of a thread.
	Label string
	// Unused says that nothing comes of it at the moment, as of an interrupt without
	// a device: that it cannot be changed does not matter.
	Unused bool
	// Asleep says that it can neither be read nor written at the moment, and comes back as
	// what it was: the frequency of CPUs that are offline. Nothing else of it is known.
	Asleep bool
	// Near are the CPUs of the NUMA node that an interrupt is set up on, in list format;
	// empty for all.
	Near string
}

// Record is what a knob was before the daemon changed it.
type Record struct {
	Knob
	ID string `json:"id,omitempty"`
	// Original is the value before; Wrote is the value that was written last, equal to
	// Original for a knob that has not been changed yet.
	Original string `json:"original"`
	Wrote    string `json:"wrote"`
	// Before is what the knob held when Wrote was about to be written, until it has been
	// read back: after a crash in between it is one of the two.
	Before string `json:"before,omitempty"`
	// Presumed says that nobody knows what it was, and that Original is the kernel's
	// default.
	Presumed bool `json:"presumed,omitempty"`
}

// Change is a value to write.
type Change struct {
	Knob
	ID    string `json:"id,omitempty"`
	Label string `json:"label,omitempty"`
	From  string `json:"from"`
	To    string `json:"to"`
	// Back says that nothing is wished of the knob any more.
	Back bool `json:"back,omitempty"`
	// Foreign says that somebody else has written the knob since the daemon did.
	Foreign bool `json:"foreign,omitempty"`
	// Presumed says that To is the kernel's default, for want of a record.
	Presumed bool `json:"presumed,omitempty"`
}

// Why says why a knob is not as it is wished.
type Why string

// The reasons.
const (
	// Immovable: the kernel refuses for good. The interrupt is managed by its driver,
	// bound to one CPU, or its controller has no choice.
	Immovable Why = "immovable"
	// NoSpace: the target CPUs have no interrupt vector left.
	NoSpace Why = "no-space"
	// Busy: the kernel is at it, and is asked again.
	Busy Why = "busy"
	// NoCPULeft: there is no CPU besides those that are to be left alone.
	NoCPULeft Why = "no-cpu-left"
	// Contested: somebody else writes it whenever the daemon has.
	Contested Why = "contested"
	// NotTaken: the kernel accepted the value and shows another one.
	NotTaken Why = "not-taken"
	// Failed: any other error.
	Failed Why = "failed"
)

// Whys are all reasons.
func Whys() []Why { return []Why{Immovable, NoSpace, Busy, NoCPULeft, Contested, NotTaken, Failed} }

// Stuck is a knob that is not as it is wished.
type Stuck struct {
	Knob
	Label string `json:"label,omitempty"`
	Value string `json:"value"`
	Why   Why    `json:"why"`
	// Text says what happened.
	Text string `json:"text"`
}

// Wish is what the host is to be.
type Wish struct {
	// Quiet are the CPUs that handle no interrupt of a device.
	Quiet cpuset.Set
	// NoKernel are the CPUs that threads and unbound work of the kernel are kept off.
	NoKernel cpuset.Set
	// Values are those of knobs that are no masks.
	Values map[Knob]string
}

// Empty says that nothing is wished.
func (w Wish) Empty() bool { return w.Quiet.IsEmpty() && w.NoKernel.IsEmpty() && len(w.Values) == 0 }

// Equal says that two wishes are the same.
func (w Wish) Equal(o Wish) bool {
	if !w.Quiet.Equal(o.Quiet) || !w.NoKernel.Equal(o.NoKernel) || len(w.Values) != len(o.Values) {
		return false
	}
	for k, v := range w.Values {
		if other, ok := o.Values[k]; !ok || other != v {
			return false
		}
	}
	return true
}

// excluded are the CPUs that a mask of this kind is not to have.
func (w Wish) excluded(k Kind) cpuset.Set {
	switch k {
	case Workqueue, KThread:
		return w.NoKernel
	default:
		return w.Quiet
	}
}

// Machine are the CPUs that there can be, and those that run.
type Machine struct{ Possible, Online cpuset.Set }
