package cgroup

import (
	"fmt"
	"strings"

	"github.com/opencontainers/cgroups/systemd"
)

// ContainerPath is the cgroup of a container whose OCI spec says cgroupsPath
// (linux.cgroupsPath): "SLICE:PREFIX:ID" with the systemd driver, an absolute
// path with cgroupfs.
func ContainerPath(cgroupsPath string, d Driver) (Path, error) {
	p, err := containerPath(cgroupsPath, d)
	if err != nil {
		return "", fmt.Errorf("parse cgroupsPath %s of the %s driver: %w", abbreviate(cgroupsPath), d, err)
	}
	return p, nil
}

func containerPath(cgroupsPath string, d Driver) (Path, error) {
	if d == DriverCgroupfs {
		return absolute(cgroupsPath)
	}
	parts := strings.Split(cgroupsPath, ":")
	if len(parts) != 3 {
		return "", fmt.Errorf("%w: want SLICE:PREFIX:ID; has the runtime another driver?", errPath)
	}
	slice, prefix, id := parts[0], parts[1], parts[2]
	if slice == "" {
		slice = "system.slice" // as runc and crun do for root
	}
	parent, err := slicePath(slice)
	if err != nil {
		return "", err
	}
	if id == "" || strings.ContainsRune(prefix+id, '/') {
		return "", fmt.Errorf("%w: ID is empty or has a slash", errPath)
	}
	name := id
	if prefix != "" {
		name = prefix + "-" + id
	}
	if !strings.HasSuffix(name, ".slice") {
		name += ".scope"
	}
	return below(parent, name)
}

// PodPath is the cgroup of a pod whose sandbox has the given cgroup_parent
// (CRI LinuxPodSandboxConfig): a slice with the systemd driver, with or without
// the path to it; an absolute path with cgroupfs.
func PodPath(cgroupParent string, d Driver) (Path, error) {
	p, err := podPath(cgroupParent, d)
	if err != nil {
		return "", fmt.Errorf("parse cgroup_parent %s of the %s driver: %w", abbreviate(cgroupParent), d, err)
	}
	return p, nil
}

func podPath(cgroupParent string, d Driver) (Path, error) {
	if d == DriverCgroupfs {
		return absolute(cgroupParent)
	}
	if strings.ContainsRune(cgroupParent, '/') {
		if _, err := ParsePath(cgroupParent); err != nil {
			return "", err
		}
	}
	return slicePath(Path(cgroupParent).Base())
}

// slicePath expands a slice to its place: a-b.slice is a.slice/a-b.slice
// (systemd.slice(5)).
func slicePath(slice string) (Path, error) {
	if len(slice) > maxName {
		return "", fmt.Errorf("%w: slice of %d bytes, at most %d", errPath, len(slice), maxName)
	}
	expanded, err := systemd.ExpandSlice(slice)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errPath, err)
	}
	return ParsePath(strings.TrimPrefix(expanded, "/"))
}

// absolute checks a path that the cgroupfs driver uses as it is. A relative one
// would be below whatever cgroup the runtime runs in.
func absolute(s string) (Path, error) {
	if !strings.HasPrefix(s, "/") || s == "/" {
		return "", fmt.Errorf("%w: want an absolute path", errPath)
	}
	return ParsePath(s)
}

func below(parent Path, name string) (Path, error) {
	if name == "." || name == ".." {
		return "", errPath
	}
	return ParsePath(string(parent.Join(name)))
}

// Quality-of-service classes as Kubernetes writes them (KEP-753).
const (
	qosGuaranteed = "Guaranteed"
	qosBurstable  = "Burstable"
	qosBestEffort = "BestEffort"
)

// PodOf recognises cgroups of pods as the kubelet names them, with both drivers
// and below any --cgroup-root, and what is in them. It returns the pod's UID in
// its usual form and its class, Guaranteed, Burstable or BestEffort; ok is false
// for cgroups that are not in a pod.
func PodOf(p Path) (uid, qos string, ok bool) {
	previous, beforeThat := "", ""
	for component := range strings.SplitSeq(string(p), "/") {
		if uid, qos, ok = podSlice(component); ok {
			return uid, qos, true
		}
		if uid, qos, ok = podDir(component, previous, beforeThat); ok {
			return uid, qos, true
		}
		previous, beforeThat = component, previous
	}
	return "", "", false
}

// podSlice recognises [ROOT-]kubepods[-QOS]-podUID.slice, where dashes of the UID
// are underscores (kubelet cm, escapeSystemdCgroupName).
func podSlice(component string) (uid, qos string, ok bool) {
	name, ok := strings.CutSuffix(component, ".slice")
	if !ok {
		return "", "", false
	}
	i := strings.LastIndex(name, "-pod")
	if i < 0 {
		return "", "", false
	}
	parent, escaped := name[:i], name[i+len("-pod"):]
	qos = qosGuaranteed
	if rest, found := strings.CutSuffix(parent, "-burstable"); found {
		parent, qos = rest, qosBurstable
	} else if rest, found := strings.CutSuffix(parent, "-besteffort"); found {
		parent, qos = rest, qosBestEffort
	}
	if parent != "kubepods" && !strings.HasSuffix(parent, "-kubepods") || strings.ContainsRune(escaped, '-') {
		return "", "", false
	}
	uid = strings.ReplaceAll(escaped, "_", "-")
	return uid, qos, isUID(uid)
}

// podDir recognises kubepods[/QOS]/podUID.
func podDir(component, parent, grandparent string) (uid, qos string, ok bool) {
	uid, ok = strings.CutPrefix(component, "pod")
	if !ok || !isUID(uid) {
		return "", "", false
	}
	switch {
	case parent == "kubepods":
		return uid, qosGuaranteed, true
	case parent == "burstable" && grandparent == "kubepods":
		return uid, qosBurstable, true
	case parent == "besteffort" && grandparent == "kubepods":
		return uid, qosBestEffort, true
	}
	return "", "", false
}

// isUID accepts what API server and kubelet use: UUIDs, the 32 hex digits of
// static pods, and other short names of letters, digits and dashes.
func isUID(s string) bool {
	const longest = 64
	if s == "" || len(s) > longest {
		return false
	}
	for _, c := range []byte(s) {
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return true
}
