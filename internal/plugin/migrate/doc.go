// Package migrate converts configurations of other CPU managers to a configuration of
// cpupoold (Import), and the reverse (Render).
//
// Import reads PerformanceProfile, the kubelet's pinning file, CRI-O's configuration,
// KubeletConfiguration and CPU-Pooler's ConfigMaps. It also reads policies of nri-plugins,
// and MachineConfigs with such files. Each key becomes a statement about a key of a
// configuration, with its source. Two sources that contradict each other are one error, which
// names both. A key without an equivalent is a Note. docs/reference/migration-formats.md has tables.
package migrate

import (
	"errors"

	"github.com/cpupoold/cpupoold/internal/plugin/manifest"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// File is a file that was read, or one to write.
type File struct {
	Name string
	Data []byte
}

// Reading is how files are understood where the documents of OpenShift's enhancements and
// its implementation disagree.
type Reading string

// Implementation is the present behaviour of operator, kubelet and CRI-O. Documents is the
// behaviour in the enhancements.
const (
	Implementation Reading = "implementation"
	Documents      Reading = "documents"
)

// Options configures Import.
type Options struct {
	// Reading is Implementation if it is empty.
	Reading Reading
	// Role selects the MachineConfigs with this role.
	Role string
	// Profile and KubeletConfig are the names of the objects that are meant where there are
	// several. Without KubeletConfig it is the one that the operator makes of the profile.
	Profile, KubeletConfig string
	// PoolConfig is the key of a CPU-Pooler ConfigMap, or the file, that is meant where
	// there are several.
	PoolConfig string
	// NRIPolicy is the name of the BalloonsPolicy or TopologyAwarePolicy that is meant where there are
	// several.
	NRIPolicy string
	// Namespaces may ask for workload types and mixed CPUs, as annotated Namespace objects
	// may.
	Namespaces []string
	// Topology is the machine that the configuration is for; nil if it is not known.
	Topology *topology.Topology
	// Coverage gets the documents that Import reads and skips, unless it is nil.
	Coverage *manifest.Coverage
}

// Note reports a key without an equivalent, or with a different meaning.
type Note struct {
	// Source is the file and the key in it; with Render, the key of the configuration.
	Source string `json:"source"`
	// Reason states the effect and its cause. Remedy states the alternative.
	Reason string `json:"reason"`
	Remedy string `json:"remedy,omitempty"`
}

// String is the note in one line.
func (n Note) String() string {
	if n.Remedy == "" {
		return n.Source + ": " + n.Reason
	}
	return n.Source + ": " + n.Reason + "; " + n.Remedy
}

// Errors for mistakes in a file. Other errors wrap them.
var (
	ErrSyntax    = errors.New("not understood")
	ErrNotObject = errors.New("is not an object")
	ErrNotString = errors.New("is not a string")
	ErrDuplicate = errors.New("occurs twice; keep one")
	ErrMerge     = errors.New("merge keys (<<) are not read here; write the keys out")
	ErrAliases   = errors.New("has more than 100 aliases; write out what they stand for")
	ErrType      = errors.New("is not a workload type; write a DNS label such as management")
	ErrCPUs      = errors.New("is not a list of CPUs; write one such as 0-3,8")
	ErrNoSuchCPU = errors.New("the machine does not have all of these CPUs")
	ErrRequired  = errors.New("is missing or empty")
	ErrOverlap   = errors.New("have CPUs in common; take them out of one")
	ErrNoShared  = errors.New("needs CPUs in spec.cpu.shared")
	// ErrContradiction is the error for two sources with different values.
	ErrContradiction = errors.New("contradiction")
)
