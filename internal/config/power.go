package config

import (
	"errors"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

// PowerFeature is something about the power of CPUs that pods may ask for.
type PowerFeature string

// The features: idle states, the frequency's governor, and the energy preference.
const (
	PowerCStates    PowerFeature = "cStates"
	PowerGovernor   PowerFeature = "governor"
	PowerPreference PowerFeature = "energyPreference"
)

// power reads off, or a list of features, each once.
func (d *decoder) power(key string, n *yaml.Node, to *[]PowerFeature) {
	n = deref(n)
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
	var all []PowerFeature
	for i, item := range n.Content {
		d.scalar(func(s string) error {
			var f PowerFeature
			if err := setOneOf(&f, s, PowerCStates, PowerGovernor, PowerPreference); err != nil {
				return err
			}
			if slices.Contains(all, f) {
				return errors.New("is there twice; keep one")
			}
			all = append(all, f)
			return nil
		})(fmt.Sprintf("%s[%d]", key, i), item)
	}
	*to = all
}

// Interrupts (interrupts) says where interrupts of devices go.
type Interrupts struct {
	// Away (away) says whose CPUs handle none. Default: annotated.
	Away InterruptsAway
}

// InterruptsAway is a choice of those who have CPUs of their own.
type InterruptsAway string

// With AwayOff interrupts go where they go. With AwayAnnotated the CPUs of containers whose
// pods ask for it handle none; with AwayExclusive those of all who have CPUs of their own,
// systemd units too, unless their pod asks for something else.
const (
	AwayOff       InterruptsAway = "off"
	AwayAnnotated InterruptsAway = "annotated"
	AwayExclusive InterruptsAway = "exclusive"
)

// KernelThreads is where threads and unbound work of the kernel run.
type KernelThreads string

// With KernelThreadsOff it is where the kernel puts them. With KernelThreadsExclusive it is
// not on CPUs that somebody has for himself, as far as they can be moved.
const (
	KernelThreadsOff       KernelThreads = "off"
	KernelThreadsExclusive KernelThreads = "exclusive"
)

func (d *decoder) interrupts(key string, n *yaml.Node, to *Interrupts) {
	d.mapping(key, n, []field{
		{"away", d.scalar(func(s string) error { return setOneOf(&to.Away, s, AwayOff, AwayAnnotated, AwayExclusive) })},
	})
}
