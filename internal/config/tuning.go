package config

import "go.yaml.in/yaml/v3"

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
