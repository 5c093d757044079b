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
	"fmt"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"

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

// object is a document of a kind that a configuration takes once, or in a few parts that
// belong together.
type object struct {
	file string // and the place in it
	name string // metadata.name; CPU-Pooler: the key in the ConfigMap
	keys string // where the keys are in the object
	// about describes the object in messages; it starts with a blank.
	about string
	doc   *yaml.Node
}

func newObject(file string, doc *yaml.Node) object {
	name, _ := text(doc, "metadata", "name")
	return object{file: file, name: name, doc: doc}
}

// String names it for people.
func (o object) String() string {
	if o.name == "" || strings.HasSuffix(o.file, ": "+o.name) {
		return o.file + o.about
	}
	return shorten(o.name) + " in " + o.file + o.about
}

// inside returns the name of the object's file, without the names of outer files and
// without the object's number.
func (o object) inside() string {
	file := o.file[strings.LastIndex(o.file, ": ")+1:]
	if i := strings.LastIndexByte(file, '['); i > 0 && strings.HasSuffix(file, "]") {
		file = file[:i]
	}
	return strings.TrimSpace(file)
}

// isDropIn reports whether a kubelet reads a file as a drop-in: *.conf in a directory such
// as kubelet.conf.d.
func (o object) isDropIn() bool {
	file := o.inside()
	return path.Ext(file) == ".conf" && path.Ext(path.Dir(file)) == ".d"
}

// order is less for the kubelet's own file than for drop-ins.
func (o object) order() int {
	if o.isDropIn() {
		return 1
	}
	return 0
}

func atMost(names []string) string {
	const most = 10
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
}

// one returns the object of a kind that a flag names, or the only object.
func (f *facts) one(kind, flag, meant string, all []object) (object, bool) {
	var names []string
	for _, o := range all {
		if meant != "" && o.name == meant {
			return o, true
		}
		names = append(names, o.String())
	}
	switch {
	case meant != "" && len(all) == 0:
		f.fail("there is no %s %q in these files", kind, shorten(meant))
	case meant != "":
		f.fail("there is no %s %q in these files; there are %s", kind, shorten(meant), atMost(names))
	case len(all) > 1:
		f.fail("%s: there are %d, and a node has one; name it with %s: %s", kind, len(all), flag, atMost(names))
	case len(all) == 1:
		return all[0], true
	}
	return object{}, false
}
