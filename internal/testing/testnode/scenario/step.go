// Package scenario makes random sequences of what happens to a node: pods of every
// kind come and go, containers restart, the configuration changes, daemon and units
// start and stop. Steps are data, made from a seed and nothing else, so that a
// sequence that shows a fault is run again by its seed, on the fake node or on a real
// one.
package scenario

import "fmt"

// Kind is what happens in a step.
type Kind string

// The kinds of steps. A step about something that is not there (any more) does
// nothing: the node may have stopped it meanwhile.
const (
	RunPod           Kind = "run-pod"
	StopPod          Kind = "stop-pod"   // and with it its containers
	RemovePod        Kind = "remove-pod" // a stopped one
	CreateContainer  Kind = "create-container"
	StartContainer   Kind = "start-container" // a created one
	StopContainer    Kind = "stop-container"  // it ends by itself
	RemoveContainer  Kind = "remove-container"
	Reload           Kind = "reload"         // to another configuration
	RestartDaemon    Kind = "restart-daemon" // with its journal
	LoseJournal      Kind = "lose-journal"   // while the daemon restarts
	KillDaemon       Kind = "kill-daemon"    // while it carries out the next step
	StartUnit        Kind = "start-unit"
	StopUnit         Kind = "stop-unit"
	ReloadSystemd    Kind = "daemon-reload" // systemd applies what it has recorded
	SilenceKubelet   Kind = "silence-kubelet"
	UnsilenceKubelet Kind = "unsilence-kubelet"
	MoveOwner        Kind = "move-owner"    // an operator asks for it; it need not be possible
	ForeignWrite     Kind = "foreign-write" // somebody else writes to a cgroup that is as planned
	ResizeContainer  Kind = "resize-container"
	PlugCPUs         Kind = "plug-cpus" // some go offline, all others are online
)

// Step is one thing that happens. Which fields count depends on Kind.
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
	Pick           uint64        // MoveOwner: who, and where to; see MoveOf. ForeignWrite: what, and where to; see WriteOf
}

// PodSpec is a pod.
type PodSpec struct {
	QoS string // guaranteed, burstable or besteffort
	// Management says that the pod asks for the workload type management, in a
	// namespace that may.
	Management bool
	// Mixed says that its containers, one aside, ask for shared CPUs beside their own.
	Mixed bool
	// CPUs is the pod's total of whole CPUs; 0 if it has none or does not tell.
	CPUs int
	// Devices is the NUMA node of the pod's devices, -1 for none.
	Devices int
}

// ContainerSpec is a container.
type ContainerSpec struct {
	// Milli is the CPU request in thousandths, and the limit too in guaranteed pods.
	Milli int
	// Init says that it runs before the others and then ends.
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

// Node carries steps out.
type Node interface {
	// Do makes a step happen, and returns when the node has come to rest.
	Do(Step) error
	// Check says what is wrong with the node.
	Check() error
}

// Run carries out steps and checks the node after each. The error names the step.
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
