package cri

import (
	"maps"
	"slices"
	"strings"
)

const (
	// ClaimDevice is the kind of the CDI devices that stand for ResourceClaims of CPUs. The name of
	// such a device is the UID of the claim.
	ClaimDevice = "cpu.cpupoold.io/claim"
	// ClaimVariable is the begin of the name of an environment variable with the CPUs of a
	// ResourceClaim. The UID of the claim follows.
	ClaimVariable = "DRA_CPUSET_"
)

const (
	// maxClaimUID is the maximum length of a UID, in bytes. Kubernetes makes UIDs of 36 bytes.
	maxClaimUID = 64
	// maxClaimEnvironment is the maximum length of all kept variables of a container, in bytes.
	maxClaimEnvironment = 4 << 10
)

// ClaimRefs are the references of a container to ResourceClaims for CPUs.
type ClaimRefs struct {
	// HasDevices reports whether the runtime reports CDI devices of the container, of any kind, together
	// with the variables.
	HasDevices bool
	// Devices are the UIDs of the claims of which the container has a CDI device, sorted. A UID of
	// more than 64 bytes is cut, and is the UID of no claim then.
	Devices []string
	// Variables are the values of the variables DRA_CPUSET_UID in the container's environment, by
	// UID. The author of the pod or of the image can write them. Values have at most 1,024 bytes.
	// A longer one is cut, and is no list of CPUs then. Names and values have at most 4,096 bytes
	// together. Of more, the last ones are kept.
	Variables map[string]string
}

// ClaimRefsOf returns the references in the names of CDI devices and in an environment of
// NAME=value. If a variable occurs more than once, the last one counts.
func ClaimRefsOf(devices, env []string) ClaimRefs {
	r := ClaimRefs{HasDevices: len(devices) > 0}
	for _, name := range devices {
		if uid, ours := strings.CutPrefix(name, ClaimDevice+"="); ours {
			r.Devices = append(r.Devices, clip(uid, maxClaimUID))
		}
	}
	slices.Sort(r.Devices)
	r.Devices = slices.Compact(r.Devices)
	size := 0
	for _, e := range slices.Backward(env) {
		rest, is := strings.CutPrefix(e, ClaimVariable)
		uid, value, _ := strings.Cut(rest, "=")
		if _, later := r.Variables[uid]; !is || later || uid == "" || len(uid) > maxClaimUID {
			continue
		}
		value = clip(value, maxVariable)
		if size += len(ClaimVariable) + len(uid) + len(value); size > maxClaimEnvironment {
			break
		}
		if r.Variables == nil {
			r.Variables = make(map[string]string)
		}
		r.Variables[strings.Clone(uid)] = value
	}
	return r
}

// IsEmpty reports whether the container has no reference to a claim.
func (r ClaimRefs) IsEmpty() bool { return len(r.Devices)+len(r.Variables) == 0 }

// Names returns CDI devices and environment variables from which ClaimRefsOf returns r.
func (r ClaimRefs) Names() (devices, env []string) {
	for _, uid := range r.Devices {
		devices = append(devices, ClaimDevice+"="+uid)
	}
	if r.HasDevices && len(devices) == 0 {
		devices = []string{""}
	}
	for _, uid := range slices.Sorted(maps.Keys(r.Variables)) {
		env = append(env, ClaimVariable+uid+"="+r.Variables[uid])
	}
	return devices, env
}
