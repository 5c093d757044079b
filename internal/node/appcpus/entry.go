package appcpus

import (
	"encoding/json"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Entry is where a container or a systemd unit runs.
type Entry struct {
	// PodUID and Container name a container, Unit a unit (du.service).
	PodUID, Container, Unit string
	// Pod is namespace/name.
	Pod string
	// Pool is management, shared or guaranteed; Type is the workload type of a
	// management pool.
	Pool, Type string
	CPUs       cpuset.Set
	// Exclusive says that nobody else runs on CPUs.
	Exclusive bool
	// Nodes are the IDs of the NUMA nodes that CPUs are in.
	Nodes cpuset.Set
	// SharedCPUs are those of the shared pool at the moment: for threads that need
	// no CPU of their own, if the application is let there.
	SharedCPUs cpuset.Set
	// MixedCPUs are shared ones that a container with CPUs of its own runs on beside
	// these: for threads that do no more than housekeeping. Empty for all others.
	MixedCPUs cpuset.Set
	// Fluid says that MixedCPUs may become somebody's own while the runtime holds to the
	// environment of the container's creation. No file depends on it.
	Fluid bool
	// Housekeeping are those of CPUs that handle interrupts where the others do not;
	// empty where the pod has not asked for that.
	Housekeeping cpuset.Set
}

// Equal says that two entries say the same.
func (e Entry) Equal(o Entry) bool {
	same := e.PodUID == o.PodUID && e.Container == o.Container && e.Unit == o.Unit && e.Pod == o.Pod && e.Pool == o.Pool && e.Type == o.Type
	return same && e.Exclusive == o.Exclusive && e.CPUs.Equal(o.CPUs) && e.Nodes.Equal(o.Nodes) && e.SharedCPUs.Equal(o.SharedCPUs) &&
		e.MixedCPUs.Equal(o.MixedCPUs) && e.Housekeeping.Equal(o.Housekeeping)
}

// document is the JSON form. CPUs and nodes are in the kernel's list format.
type document struct {
	Pod        string     `json:"pod,omitempty"`
	Container  string     `json:"container,omitempty"`
	Unit       string     `json:"unit,omitempty"`
	Pool       string     `json:"pool"`
	Type       string     `json:"type,omitempty"`
	CPUs       cpuset.Set `json:"cpus"`
	Exclusive  bool       `json:"exclusive"`
	Nodes      cpuset.Set `json:"nodes"`
	SharedCPUs cpuset.Set `json:"sharedCPUs"`
	MixedCPUs  cpuset.Set `json:"mixedCPUs,omitzero"`

	Housekeeping cpuset.Set `json:"housekeepingCPUs,omitzero"`
}

// Name is the entry's JSON file, below the directory that Sync is given. Names come
// from outside: one that is no plain file name is an error.
func (e Entry) Name() (string, error) {
	if e.Unit != "" {
		return path.Join(unitsDir, e.Unit+jsonSuffix), plain("unit", e.Unit)
	}
	if err := plain("pod UID", e.PodUID); err != nil {
		return "", err
	}
	return path.Join(containersDir, e.PodUID, e.Container+jsonSuffix), plain("container", e.Container)
}

const (
	containersDir = "containers"
	unitsDir      = "units"
	jsonSuffix    = ".json"
	envSuffix     = ".env"
	goSuffix      = ".go" + envSuffix
)

// longest leaves room for suffixes and renameio's in a file name of 255 bytes.
const longest = 200

// plain checks a path element.
func plain(what, name string) error {
	if name == "" || len(name) > longest || name[0] == '.' || strings.ContainsAny(name, "/\x00\n") {
		return fmt.Errorf("%s %.80q cannot be the name of a file: no file tells it its CPUs", what, name)
	}
	return nil
}

// Render adds the entry's files to files, by name.
func (e Entry) Render(files map[string]string) error {
	name, err := e.Name()
	if err != nil {
		return err
	}
	b, err := json.Marshal(document{
		Pod: e.Pod, Container: e.Container, Unit: e.Unit, Pool: e.Pool, Type: e.Type,
		CPUs: e.CPUs, Exclusive: e.Exclusive, Nodes: e.Nodes, SharedCPUs: e.SharedCPUs, MixedCPUs: e.MixedCPUs,
		Housekeeping: e.Housekeeping,
	})
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	files[name] = string(b) + "\n"
	if e.Unit == "" {
		return nil
	}
	base := strings.TrimSuffix(name, jsonSuffix)
	files[base+envSuffix] = e.environmentFile()
	if e.Exclusive {
		// Apart, because not all Go programs want it: the runtime's own count follows
		// a change, and a number that is given to it does not.
		files[base+goSuffix] = fmt.Sprintf("GOMAXPROCS=%d\n", e.CPUs.Len())
	}
	return nil
}

// environmentFile has no value that would need quotes (systemd.exec,
// EnvironmentFile=).
func (e Entry) environmentFile() string {
	var b strings.Builder
	for _, v := range e.variables() {
		fmt.Fprintf(&b, "%s=%s\n", v[0], v[1])
	}
	return b.String()
}

// Environment returns the variables that tell the entry's process its CPUs, by name.
func (e Entry) Environment() map[string]string {
	all := make(map[string]string)
	for _, v := range e.variables() {
		all[v[0]] = v[1]
	}
	return all
}

// variables are names and values. The last names are those that CRI-O gives to
// containers. It reads the second of them again: with each update of a container that
// has it, the CPUs that it names come into the container's cpuset (cri-o,
// server/container_update_resources.go). So it is for containers alone that run on
// them, and of these for those whose shared CPUs never become anybody's own.
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
		if !e.Fluid {
			all = append(all, [2]string{"OPENSHIFT_SHARED_CPUS", e.MixedCPUs.String()})
		}
	}
	if !e.Housekeeping.IsEmpty() {
		all = append(all, [2]string{"OPENSHIFT_HOUSEKEEPING_CPUS", e.Housekeeping.String()})
	}
	return all
}
