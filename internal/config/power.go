package config

import (
	"errors"
	"slices"

	"go.yaml.in/yaml/v3"
)

// PowerFeature is a power setting of CPUs that pods may request.
type PowerFeature string

// The features: idle states, the frequency's governor, and the energy preference.
const (
	PowerCStates    PowerFeature = "cStates"
	PowerGovernor   PowerFeature = "governor"
	PowerPreference PowerFeature = "energyPreference"
)

// power reads off, or a list of features, each once.
func (d *decoder) power(key string, n *yaml.Node, to *[]PowerFeature) {
	if n.Kind != yaml.SequenceNode {
		d.scalar(func(s string) error {
			if s != "off" {
				return errors.New("is not known; write off, or a list of cStates, governor and energyPreference")
			}
			*to = nil
			return nil
		})(key, n)
		return
	}
	*to = nil
	d.sequence(key, n, d.scalar(func(s string) error {
		var f PowerFeature
		if err := setOneOf(&f, s, PowerCStates, PowerGovernor, PowerPreference); err != nil {
			return err
		}
		if slices.Contains(*to, f) {
			return errors.New("occurs twice; keep one")
		}
		*to = append(*to, f)
		return nil
	}))
}

// Interrupts (interrupts) selects the CPUs of interrupts of devices.
type Interrupts struct {
	// Away (away) selects the owners whose CPUs handle no interrupts. Default: annotated.
	Away InterruptsAway
}

// InterruptsAway selects owners of exclusive CPUs.
type InterruptsAway string

// With AwayOff interrupts do not move. With AwayAnnotated the CPUs of containers with the
// annotation handle none. With AwayExclusive all exclusive CPUs handle none, also the CPUs of
// systemd units, unless the annotations of the pod request the contrary.
const (
	AwayOff       InterruptsAway = "off"
	AwayAnnotated InterruptsAway = "annotated"
	AwayExclusive InterruptsAway = "exclusive"
)

// KernelThreads selects the CPUs of kernel threads and unbound workqueues.
type KernelThreads string

// With KernelThreadsOff the kernel chooses. With KernelThreadsExclusive they leave exclusive CPUs
// as far as they can be moved.
const (
	KernelThreadsOff       KernelThreads = "off"
	KernelThreadsExclusive KernelThreads = "exclusive"
)

func (d *decoder) interrupts(key string, n *yaml.Node, to *Interrupts) {
	d.mapping(key, n, []field{
		{"away", oneOf(d, &to.Away, AwayOff, AwayAnnotated, AwayExclusive)},
	})
}
