package hostenv

import (
	"context"
	"errors"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/annotations"
	"github.com/cpupoold/cpupoold/internal/node/managers"
	"github.com/cpupoold/cpupoold/internal/node/noise"
	"github.com/cpupoold/cpupoold/internal/node/usablecpus"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// CallTimeout limits a question to runtime, systemd or kubelet; UpdateTimeout a list or change.
const (
	CallTimeout   = 30 * time.Second
	UpdateTimeout = 2 * time.Minute
)

// Host is the environment as the event loop uses it. The event loop writes cgroup files
// directly, and calls everything else through workers.
type Host struct {
	Cgroups  *cgroup.FS
	Driver   cgroup.Driver
	Possible cpuset.Set
	Nodes    cpuset.Set // NUMA nodes with memory

	Runtime Runtime // nil without a container runtime
	Units   Units   // nil without systemd
	Devices devices // nil: the kubelet is not asked for NUMA nodes
	// CPUManager is the kubelet that allocates exclusive CPUs; nil where the daemon does.
	CPUManager cpuManager
	CPUs       usablecpus.Source // nil: CPUs are not watched
	Online     func() cpuset.Set // CPUs that are online now
	// Annotations selects the annotations of pods that the runtime's clients keep.
	Annotations *annotations.Filter
	// CRIO reads the configuration of CRI-O; nil with another runtime.
	CRIO func() managers.CRIO
	// UnitFile reads a file from which systemd reads units.
	UnitFile func(name string) ([]byte, error)

	Kernel cgroup.PartitionKernel // the kernel's rules for partitions
	Boot   noise.BootFacts

	JournalFile string
	// RunDir holds files for applications, and the journal's mark; empty: write neither.
	RunDir string
	// RecentDir is RunDir if it is in memory, so that a write waits for no disk. Otherwise it is empty.
	RecentDir string
	// NRISocket is the socket of the runtime's NRI; empty: NRI is not used.
	NRISocket string
	// confirm checks a guessed runtime; nil if it is certain.
	confirm func(context.Context) error
	// Observes is set by Observing: nothing may be written.
	Observes bool
}

// Record makes a write that takes time. It runs in a worker.
func (h *Host) Record(ctx context.Context, w cgroup.Write) error {
	switch w.Via {
	case cgroup.DBus:
		return h.Units.Apply(ctx, w)
	case cgroup.File:
		return h.Cgroups.Apply(w)
	}
	set, err := cpuset.Parse(w.Value)
	switch {
	case err != nil:
		return err
	case w.Property == cgroup.CRIMems:
		return h.Runtime.UpdateMems(ctx, w.Container, set)
	}
	return h.Runtime.UpdateCPUs(ctx, w.Container, set)
}

// IsGone reports whether a write failed because its cgroup or container has ended.
func IsGone(err error) bool {
	return errors.Is(err, cgroup.ErrGone) || errors.Is(err, cri.ErrNotFound) || errors.Is(err, cri.ErrNotRunning)
}
