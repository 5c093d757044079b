// Package scenario generates random sequences of events on a node: pods start and end, containers
// restart, the configuration changes, the daemon and units start and stop. Steps are data and
// depend only on a seed. So a failing sequence can be repeated by its seed, on the fake node or
// on a real one.
package scenario

import "fmt"

// Kind is the kind of a step.
type Kind string

// Kinds of steps. A step about a missing object does nothing, because the daemon may have stopped
// it.
const (
	RunPod           Kind = "run-pod"
	StopPod          Kind = "stop-pod"   // and its containers
	RemovePod        Kind = "remove-pod" // if it is stopped
	CreateContainer  Kind = "create-container"
	StartContainer   Kind = "start-container" // if it is created
	StopContainer    Kind = "stop-container"  // it exits
	RemoveContainer  Kind = "remove-container"
	Reload           Kind = "reload"         // to another configuration
	RestartDaemon    Kind = "restart-daemon" // with its journal
	LoseJournal      Kind = "lose-journal"   // during a restart of the daemon
	KillDaemon       Kind = "kill-daemon"    // during the next step
	StartUnit        Kind = "start-unit"
	StopUnit         Kind = "stop-unit"
	ReloadSystemd    Kind = "daemon-reload" // systemd applies its records
	SilenceKubelet   Kind = "silence-kubelet"
	UnsilenceKubelet Kind = "unsilence-kubelet"
	MoveOwner        Kind = "move-owner"    // an operator's request; it may be impossible
	ForeignWrite     Kind = "foreign-write" // an external write to a cgroup in the desired state
	ResizeContainer  Kind = "resize-container"
	PlugCPUs         Kind = "plug-cpus" // the given ones go offline, all others online
)

// Step is one event. The kind determines which fields are used.
type Step struct {
	Kind Kind
	// Pod is the pod's UID and name. Container names one of its containers.
	Pod, Container string
	Of             PodSpec       // RunPod
	Spec           ContainerSpec // CreateContainer, ResizeContainer
	Offline        []int         // PlugCPUs
	Unit           string        // StartUnit, StopUnit
	Config         int           // Reload: index of a configuration
	After          int           // KillDaemon: number of writes of its last pass that succeed
	Pick           uint64        // MoveOwner and ForeignWrite: seed for MoveOf and WriteOf
}

// PodSpec describes a pod.
type PodSpec struct {
	QoS string // guaranteed, burstable or besteffort
	// Management reports whether the pod requests the workload type management, in an allowed
	// namespace.
	Management bool
	// Mixed reports whether its containers, except one, request shared CPUs in addition to
	// exclusive ones.
	Mixed bool
	// Milli is the pod's total in thousandths of a CPU; 0 without or if it is not sent.
	Milli int
	// Devices is the NUMA node of the pod's devices, -1 for none.
	Devices int
}

// ContainerSpec describes a container.
type ContainerSpec struct {
	// Milli is the CPU request in thousandths. In guaranteed pods, it is also the limit.
	Milli int
	// Init reports whether it is an init container.
	Init bool
}

// String describes the step in one line.
func (s Step) String() string {
	switch s.Kind {
	case RunPod:
		return fmt.Sprintf("%s %s %+v", s.Kind, s.Pod, s.Of)
	case CreateContainer, ResizeContainer:
		return fmt.Sprintf("%s %s/%s %+v", s.Kind, s.Pod, s.Container, s.Spec)
	case StartContainer, StopContainer, RemoveContainer:
		return fmt.Sprintf("%s %s/%s", s.Kind, s.Pod, s.Container)
	case StopPod, RemovePod:
		return fmt.Sprintf("%s %s", s.Kind, s.Pod)
	case Reload:
		return fmt.Sprintf("%s to configuration %d", s.Kind, s.Config)
	case KillDaemon:
		return fmt.Sprintf("%s after %d writes of the next step", s.Kind, s.After)
	case MoveOwner, ForeignWrite:
		return fmt.Sprintf("%s %d", s.Kind, s.Pick)
	case PlugCPUs:
		return fmt.Sprintf("%s, offline: %v", s.Kind, s.Offline)
	case StartUnit, StopUnit:
		return fmt.Sprintf("%s %s", s.Kind, s.Unit)
	}
	return string(s.Kind)
}

// Node applies steps.
type Node interface {
	// Do applies a step, and returns when the node is idle.
	Do(Step) error
	// Check returns an error about the state of the node.
	Check() error
}

// Run applies steps and calls Check after each of them. The error contains the step.
func Run(n Node, steps []Step) error {
	for i, s := range steps {
		err := n.Do(s)
		if err == nil {
			err = n.Check()
		}
		if err != nil {
			return fmt.Errorf("step %d of %d (%s): %w", i+1, len(steps), s, err)
		}
	}
	return nil
}
