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
		err = fmt.Errorf("parse cgroupsPath %s of the %s driver: %w", abbreviate(cgroupsPath), d, err)
	}
	return p, err
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
	parent, err := SlicePath(slice)
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
	if name == "." || name == ".." {
		return "", errPath
	}
	return ParsePath(string(parent.Join(name)))
}

// PodPath is the cgroup of a pod whose sandbox has the given cgroup_parent
// (CRI LinuxPodSandboxConfig). With the systemd driver that is a slice, with or without
// its path; with cgroupfs it is an absolute path.
func PodPath(cgroupParent string, d Driver) (Path, error) {
	p, err := podPath(cgroupParent, d)
	if err != nil {
		err = fmt.Errorf("parse cgroup_parent %s of the %s driver: %w", abbreviate(cgroupParent), d, err)
	}
	return p, err
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
	return SlicePath(Path(cgroupParent).Base())
}

// SlicePath expands a slice to its place: a-b.slice is a.slice/a-b.slice
// (systemd.slice(5)).
func SlicePath(slice string) (Path, error) {
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

// Quality-of-service classes as Kubernetes writes them (KEP-753).
const (
	qosGuaranteed = "Guaranteed"
	qosBurstable  = "Burstable"
	qosBestEffort = "BestEffort"
)

// PodOf returns the UID and the QoS class of the pod whose cgroup is p or contains p. It knows
// the names that the kubelet uses with both drivers, below any --cgroup-root, also in the
// system partition (see [Path.SystemPartition]). The UID is in its usual form. The class is
// Guaranteed, Burstable or BestEffort. ok is false for cgroups that are not in a pod.
func PodOf(p Path) (uid, qos string, ok bool) {
	found, ok := findPod(p)
	return found.uid, found.qos, ok
}

// InPod reports whether p is the cgroup of a pod, or in one.
func (p Path) InPod() bool {
	_, ok := findPod(p)
	return ok
}

// SystemPartition returns the root of the kubelet's system partition (KEP-5894, planned for
// Kubernetes 1.38), if p is the cgroup of a pod or in one. inside reports whether that pod is
// in the partition. Otherwise root is the cgroup that the partition of the same kubelet would
// have. root is empty for cgroups that are not in a pod.
func (p Path) SystemPartition() (root Path, inside bool) {
	pod, ok := findPod(p)
	if !ok {
		return "", false
	}
	top := pod.path.Parent()
	if pod.qos != qosGuaranteed {
		top = top.Parent()
	}
	if pod.system {
		return top, top != ""
	}
	if stem, isSlice := strings.CutSuffix(string(top), ".slice"); isSlice {
		return top.Join(Path(stem).Base() + "-" + systemPartition + ".slice"), false
	}
	return top.Join(systemPartition), false
}

// systemPartition is the kubelet's name for the cgroup of its system partition
// (kubernetes/kubernetes#142200 of August 2026).
const systemPartition = "system"

type podPlace struct {
	path     Path // of the pod
	uid, qos string
	system   bool // in the system partition
}

// findPod returns the pod whose cgroup is p or contains p.
func findPod(p Path) (podPlace, bool) {
	var above [3]string // components before the current one, the nearest first
	end := 0
	for component := range strings.SplitSeq(string(p), "/") {
		end += len(component)
		pod, ok := podSlice(component)
		if !ok {
			pod, ok = podDir(component, above)
		}
		if ok {
			pod.path = p[:end]
			return pod, true
		}
		above = [3]string{component, above[0], above[1]}
		end++ // the slash
	}
	return podPlace{}, false
}

// podSlice recognises [ROOT-]kubepods[-system][-QOS]-podUID.slice, where dashes of the UID
// are underscores (kubelet cm, escapeSystemdCgroupName).
func podSlice(component string) (podPlace, bool) {
	name, ok := strings.CutSuffix(component, ".slice")
	if !ok {
		return podPlace{}, false
	}
	i := strings.LastIndex(name, "-pod")
	if i < 0 {
		return podPlace{}, false
	}
	parent, escaped := name[:i], name[i+len("-pod"):]
	pod := podPlace{qos: qosGuaranteed}
	if rest, found := strings.CutSuffix(parent, "-burstable"); found {
		parent, pod.qos = rest, qosBurstable
	} else if rest, found := strings.CutSuffix(parent, "-besteffort"); found {
		parent, pod.qos = rest, qosBestEffort
	}
	parent, pod.system = strings.CutSuffix(parent, "-"+systemPartition)
	if parent != "kubepods" && !strings.HasSuffix(parent, "-kubepods") || strings.ContainsRune(escaped, '-') {
		return podPlace{}, false
	}
	pod.uid = strings.ReplaceAll(escaped, "_", "-")
	return pod, isUID(pod.uid)
}

// podDir recognises kubepods[/system][/QOS]/podUID. above holds the components before this
// one, the nearest first.
func podDir(component string, above [3]string) (podPlace, bool) {
	uid, ok := strings.CutPrefix(component, "pod")
	if !ok || !isUID(uid) {
		return podPlace{}, false
	}
	pod, rest := podPlace{uid: uid, qos: qosGuaranteed}, above[:]
	switch rest[0] {
	case "burstable":
		pod.qos, rest = qosBurstable, rest[1:]
	case "besteffort":
		pod.qos, rest = qosBestEffort, rest[1:]
	}
	if rest[0] == systemPartition {
		pod.system, rest = true, rest[1:]
	}
	return pod, rest[0] == "kubepods"
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

// HoldsPods reports whether p is the cgroup of the kubelet's pods, or a cgroup in it that is not in
// a pod, such as the cgroup of a QoS class.
func (p Path) HoldsPods() bool {
	if p.InPod() {
		return false
	}
	for component := range strings.SplitSeq(string(p), "/") {
		if name := strings.TrimSuffix(component, ".slice"); name == "kubepods" || strings.HasSuffix(name, "-kubepods") {
			return true
		}
	}
	return false
}

// ContainerID returns the container id in the name of a cgroup of a pod, or "". All runtimes of
// the kubelet use 64 hexadecimal digits.
func (p Path) ContainerID(d Driver) string {
	_, _, inPod := PodOf(p.Parent())
	if _, _, deeper := PodOf(p.Parent().Parent()); !inPod || deeper {
		return ""
	}
	name, isScope := strings.CutSuffix(p.Base(), ".scope")
	if isScope != (d == DriverSystemd) {
		return ""
	}
	id := name[strings.LastIndexByte(name, '-')+1:]
	const idLength = 64
	if len(id) != idLength || strings.Trim(id, "0123456789abcdef") != "" || !IsContainerPrefix(strings.TrimSuffix(name, id)) {
		return ""
	}
	return id
}

// IsContainerPrefix reports whether the text before an id in a cgroup's name stands for a
// container and not for its monitor (crio-conmon-ID.scope).
func IsContainerPrefix(prefix string) bool {
	return prefix == "" || strings.HasSuffix(prefix, "-") && !strings.HasSuffix(prefix, "conmon-")
}
