package cri

import "strings"

// SharedCPUsVariable is the environment variable with the CPUs that CRI-O adds to the cpuset
// of a container with each update (cri-o 1.34.0, server/container_update_resources.go,
// reapplySharedCPUs). CRI-O reads it in the container's OCI spec, so its author can be the
// author of the pod or of the image.
const SharedCPUsVariable = "OPENSHIFT_SHARED_CPUS"

// maxSharedCPUs is the maximum number of bytes of the value that are kept. A pod chooses
// the length of its environment.
const maxSharedCPUs = 1024

// SharedCPUs returns the value of OPENSHIFT_SHARED_CPUS in an environment of NAME=value, as
// CRI-O reads it: the last entry counts, and ends before a second equals sign. A value of
// more than 1024 bytes is cut, and is no list of CPUs then. The result is empty without the
// variable.
func SharedCPUs(env []string) string {
	value := ""
	for _, e := range env {
		if after, is := strings.CutPrefix(e, SharedCPUsVariable+"="); is {
			value, _, _ = strings.Cut(after, "=")
		}
	}
	if len(value) > maxSharedCPUs {
		value = value[:maxSharedCPUs] + "..."
	}
	return strings.Clone(value) // not the whole message of the runtime
}
