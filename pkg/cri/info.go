package cri

import (
	"encoding/json"
	"errors"
)

// infoKey is where both runtimes put the one JSON document of a verbose status.
const infoKey = "info"

var errMissing = errors.New("missing")

// info is the part of that document that cpupoold reads. CRI does not specify
// it; containerd (internal/cri/server/container_status.go, podsandbox
// controller) and CRI-O (server/container_status.go, sandbox_status.go) agree on
// these names. config is containerd's alone.
type info struct {
	SandboxID   string `json:"sandboxID"`
	PID         int    `json:"pid"`
	RuntimeSpec struct {
		Linux struct {
			CgroupsPath string `json:"cgroupsPath"`
			Resources   struct {
				CPU ociCPU `json:"cpu"`
			} `json:"resources"`
		} `json:"linux"`
	} `json:"runtimeSpec"`
	Config struct {
		Linux struct {
			CgroupParent string `json:"cgroup_parent"`
			Resources    criCPU `json:"resources"`
		} `json:"linux"`
	} `json:"config"`
}

// ociCPU is linux.resources.cpu of the OCI runtime specification.
type ociCPU struct {
	Shares uint64 `json:"shares"`
	Quota  int64  `json:"quota"`
	Period int64  `json:"period"`
	CPUs   string `json:"cpus"`
}

func (c ociCPU) resources() Resources { return Resources(c) }

// criCPU is CRI's LinuxContainerResources.
type criCPU struct {
	Shares uint64 `json:"cpu_shares"`
	Quota  int64  `json:"cpu_quota"`
	Period int64  `json:"cpu_period"`
	CPUs   string `json:"cpuset_cpus"`
}

func (c criCPU) resources() Resources { return Resources(c) }

func parseInfo(doc string) (info, error) {
	if doc == "" {
		return info{}, errMissing
	}
	var i info
	if err := json.Unmarshal([]byte(doc), &i); err != nil {
		return info{}, err
	}
	return i, nil
}
