package podresources

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// CPUState is what the kubelet's CPU manager has decided: its file
// cpu_manager_state (pkg/kubelet/cm/cpumanager/state/checkpoint.go).
type CPUState struct {
	Policy   string     // never empty: static, none, or one that is not known here.
	Default  cpuset.Set // CPUs of all containers without CPUs of their own; empty with every policy but static
	Holdings []Holding  // sorted by pod and container, no two of one name
}

// Holding are CPUs that the kubelet has given to one container; with Container ""
// to a whole pod, whose containers have them among themselves (KEP-5526).
type Holding struct {
	PodUID, Container string
	CPUs              cpuset.Set // never empty
}

// cpuData are the fields that tell of CPUs, which versions 2 and 3 of the file have
// at the top and version 4 within data.
type cpuData struct {
	PolicyName    string                     `json:"policyName"`
	DefaultCPUSet string                     `json:"defaultCpuSet"`
	Entries       map[string]json.RawMessage `json:"entries"`
	PodEntries    map[string]struct {
		CPUSet string `json:"cpuSet"`
	} `json:"podEntries"`
}

// ParseCPUState reads a cpu_manager_state of version 2 (Kubernetes 1.18 to 1.36), 3
// (1.36 with PodLevelResourceManagers) or 4 (1.37), in which data counts and what
// stands beside it is for older kubelets. Version 1 has containers by their ids; it
// can be read while it has none. The checksums are not looked at: they are those of
// a dump of the kubelet's own types, and the kubelet replaces the file as a whole.
// An error means that nothing is known, the policy included.
func ParseCPUState(b []byte) (CPUState, error) {
	var file struct {
		cpuData
		Data *string `json:"data"`
	}
	const what = "parse CPU manager state: "
	if len(bytes.TrimSpace(b)) == 0 {
		return CPUState{}, errors.New(what + "the file is empty")
	}
	if err := json.Unmarshal(b, &file); err != nil {
		return CPUState{}, fmt.Errorf(what+"%w", err)
	}
	data := file.cpuData
	if file.Data != nil {
		data = cpuData{}
		if err := json.Unmarshal([]byte(*file.Data), &data); err != nil {
			return CPUState{}, fmt.Errorf(what+"data: %w", err)
		}
	}
	if data.PolicyName == "" {
		return CPUState{}, errors.New(what + "policyName is missing")
	}
	s := CPUState{Policy: data.PolicyName}
	var err error
	if s.Default, err = cpuset.Parse(data.DefaultCPUSet); err != nil {
		return CPUState{}, fmt.Errorf(what+"defaultCpuSet: %w", err)
	}
	for uid, raw := range data.Entries {
		var containers map[string]string
		if err := json.Unmarshal(raw, &containers); err != nil {
			return CPUState{}, fmt.Errorf(what+"entries of %q: %w; version 1, of a kubelet before 1.18, cannot be read", uid, err)
		}
		for name, cpus := range containers {
			if name == "" {
				return CPUState{}, fmt.Errorf(what+"entries of %q: a container has no name", uid)
			}
			if err := s.hold(uid, name, cpus); err != nil {
				return CPUState{}, fmt.Errorf(what+"%w", err)
			}
		}
	}
	for uid, pod := range data.PodEntries {
		if err := s.hold(uid, "", pod.CPUSet); err != nil {
			return CPUState{}, fmt.Errorf(what+"%w", err)
		}
	}
	slices.SortFunc(s.Holdings, func(a, b Holding) int {
		return cmp.Or(cmp.Compare(a.PodUID, b.PodUID), cmp.Compare(a.Container, b.Container))
	})
	return s, nil
}

// hold adds a holding. That of no CPU is none: a container of init containers' CPUs
// that have been given on.
func (s *CPUState) hold(uid, container, cpus string) error {
	set, err := cpuset.Parse(cpus)
	switch {
	case err != nil:
		return fmt.Errorf("CPUs of pod %q, container %q: %w", uid, container, err)
	case uid == "":
		return fmt.Errorf("CPUs %s are those of a pod without a UID", cpus)
	case !set.IsEmpty():
		s.Holdings = append(s.Holdings, Holding{uid, container, set})
	}
	return nil
}
