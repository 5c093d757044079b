package appcpus

import (
	"encoding/json"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Entry holds the CPUs of a container or a systemd unit. Its JSON has CPUs and nodes in the kernel's
// list format.
type Entry struct {
	// PodUID and Container name a container. Unit names a unit (du.service). Pod is namespace/name.
	PodUID    string `json:"-"`
	Pod       string `json:"pod,omitempty"`
	Container string `json:"container,omitempty"`
	Unit      string `json:"unit,omitempty"`
	// Pool is management, shared or guaranteed. Type is the workload type of a management pool.
	Pool string     `json:"pool"`
	Type string     `json:"type,omitempty"`
	CPUs cpuset.Set `json:"cpus"`
	// Exclusive reports whether CPUs are exclusive CPUs.
	Exclusive bool `json:"exclusive"`
	// Nodes holds the IDs of the NUMA nodes of CPUs.
	Nodes cpuset.Set `json:"nodes"`
	// SharedCPUs holds the current CPUs of the shared pool. An application may use them for
	// threads without exclusive CPUs, if its cpuset allows that.
	SharedCPUs cpuset.Set `json:"sharedCPUs"`
	// MixedCPUs holds the shared CPUs of an exclusive container, for its housekeeping threads. It
	// is empty for all other entries.
	MixedCPUs cpuset.Set `json:"mixedCPUs,omitzero"`
	// CanLoseMixed reports whether MixedCPUs may become exclusive CPUs of another container. The
	// runtime keeps the environment from the creation of this container. No file depends on it.
	CanLoseMixed bool `json:"-"`
	// Housekeeping holds the CPUs that handle interrupts, if the others do not. It is empty
	// unless the pod requests it.
	Housekeeping cpuset.Set `json:"housekeepingCPUs,omitzero"`
	// Verified reports whether the kernel has confirmed the CPUs. Until then, the files keep
	// their content.
	Verified bool `json:"-"`
}

// KeepsFilesOf reports whether a Write of e after a Write of o changes no file.
func (e *Entry) KeepsFilesOf(o *Entry) bool {
	if e.Verified {
		return o.Verified && e.hasFilesOf(o)
	}
	return e.PodUID == o.PodUID && e.Container == o.Container && e.Unit == o.Unit && e.Exclusive == o.Exclusive
}

// hasFilesOf reports whether two entries have the same files.
func (e *Entry) hasFilesOf(o *Entry) bool {
	same := e.PodUID == o.PodUID && e.Container == o.Container && e.Unit == o.Unit && e.Pod == o.Pod && e.Pool == o.Pool && e.Type == o.Type
	return same && e.Exclusive == o.Exclusive && e.CPUs.Equal(o.CPUs) && e.Nodes.Equal(o.Nodes) && e.SharedCPUs.Equal(o.SharedCPUs) &&
		e.MixedCPUs.Equal(o.MixedCPUs) && e.Housekeeping.Equal(o.Housekeeping)
}

// Name returns the path of the entry's JSON file below the directory of the Writer. It returns an error
// if a name of the entry is not a plain file name.
func (e Entry) Name() (string, error) {
	if e.Unit != "" {
		return path.Join(unitsDir, e.Unit+jsonSuffix), checkFileName("unit", e.Unit)
	}
	if err := checkFileName("pod UID", e.PodUID); err != nil {
		return "", err
	}
	return path.Join(containersDir, e.PodUID, e.Container+jsonSuffix), checkFileName("container", e.Container)
}

const (
	containersDir = "containers"
	unitsDir      = "units"
	jsonSuffix    = ".json"
	envSuffix     = ".env"
	goSuffix      = ".go" + envSuffix
)

// maxNameLength is the maximum length of a name. With the suffixes of this package and of
// package confined, it stays below the 255 bytes of a file name.
const maxNameLength = 200

func checkFileName(what, name string) error {
	if name == "" || len(name) > maxNameLength || name[0] == '.' || strings.ContainsAny(name, "/\x00\n") {
		return fmt.Errorf("%s %.80q is not a valid file name; cannot write its CPUs to a file", what, name)
	}
	return nil
}

// Render adds the entry's files to files, by name.
func (e Entry) Render(files map[string]string) error {
	name, err := e.Name()
	if err != nil {
		return err
	}
	b, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	files[name] = string(b) + "\n"
	if e.Unit == "" {
		return nil
	}
	base := strings.TrimSuffix(name, jsonSuffix)
	var environment strings.Builder // for EnvironmentFile= (systemd.exec). The values need no quotes
	for _, v := range e.variables() {
		fmt.Fprintf(&environment, "%s=%s\n", v[0], v[1])
	}
	files[base+envSuffix] = environment.String()
	if e.Exclusive {
		// A separate file, because not all Go programs should read it: the Go runtime follows
		// changes of the CPUs by default, and does not with GOMAXPROCS.
		files[base+goSuffix] = fmt.Sprintf("GOMAXPROCS=%d\n", e.CPUs.Len())
	}
	return nil
}

// Environment returns the environment variables about the entry's CPUs, by name.
func (e Entry) Environment() map[string]string {
	all := make(map[string]string)
	for _, v := range e.variables() {
		all[v[0]] = v[1]
	}
	return all
}

// variables returns names and values. The names with OPENSHIFT_ are the names that CRI-O uses.
// With each update of a container, CRI-O adds the CPUs in OPENSHIFT_SHARED_CPUS to its cpuset
// (cri-o, server/container_update_resources.go). So only containers that run on these CPUs get
// the variable, and only if the CPUs stay shared.
func (e Entry) variables() [][2]string {
	all := [][2]string{
		{"CPUPOOL_CPUS", e.CPUs.String()},
		{"CPUPOOL_POOL", e.Pool},
		{"CPUPOOL_EXCLUSIVE", strconv.FormatBool(e.Exclusive)},
		{"CPUPOOL_NODES", e.Nodes.String()},
		{"CPUPOOL_SHARED_CPUS", e.SharedCPUs.String()},
	}
	if e.Exclusive {
		all = append(all, [2]string{"OPENSHIFT_ISOLATED_CPUS", e.CPUs.String()})
	}
	switch {
	case e.Unit != "": // no runtime reads it
		all = append(all, [2]string{"OPENSHIFT_SHARED_CPUS", e.SharedCPUs.String()})
	case !e.MixedCPUs.IsEmpty():
		all = append(all, [2]string{"CPUPOOL_MIXED_CPUS", e.MixedCPUs.String()})
		if !e.CanLoseMixed {
			all = append(all, [2]string{"OPENSHIFT_SHARED_CPUS", e.MixedCPUs.String()})
		}
	}
	if !e.Housekeeping.IsEmpty() {
		all = append(all, [2]string{"OPENSHIFT_HOUSEKEEPING_CPUS", e.Housekeeping.String()})
	}
	return all
}
