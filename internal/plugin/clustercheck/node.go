package clustercheck

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/cpupoold/cpupoold/internal/findings"
	"github.com/cpupoold/cpupoold/internal/nodecheck"
	"github.com/cpupoold/cpupoold/internal/nodekind"
)

// The defaults of NRI in a version of a runtime.
const (
	nriOn   = "on"
	nriOff  = "off"
	nriNone = "none"
)

func nodeOf(n *corev1.Node) Node {
	info := n.Status.NodeInfo
	at := Node{Name: n.Name, OS: info.OSImage, Kernel: info.KernelVersion, Runtime: info.ContainerRuntimeVersion, Version: info.KubeletVersion}
	if nodekind.CanRun(n) {
		at.NRI = nriDefault(at.runtime())
	}
	return at
}

func (n *Node) runtime() (name, version string) {
	name, version, _ = strings.Cut(n.Runtime, "://")
	return name, version
}

// nriDefault returns the default of NRI. containerd has NRI since 1.7, and CRI-O since 1.26.
// It is on by default since containerd 2.0 and CRI-O 1.30.
func nriDefault(runtime, version string) string {
	since, on := map[string][2]int{"containerd": {1, 7}, "cri-o": {1, 26}}[runtime], map[string][2]int{"containerd": {2, 0}, "cri-o": {1, 30}}[runtime]
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if since == [2]int{} || len(parts) < 2 {
		return ""
	}
	major, errMajor := strconv.Atoi(parts[0])
	minor, errMinor := strconv.Atoi(parts[1])
	switch is := []int{major, minor}; {
	case errMajor != nil || errMinor != nil:
		return ""
	case slices.Compare(is, since[:]) < 0:
		return nriNone
	case slices.Compare(is, on[:]) < 0:
		return nriOff
	}
	return nriOn
}

func (n *Node) findings(node *corev1.Node) []findings.Finding {
	if !nodekind.CanRun(node) {
		f := findings.Finding{Check: "node-kind", Severity: findings.Info, Subject: "node",
			Found: "runs Windows, and cpupoold runs on Linux only: the DaemonSet skips the node"}
		if nodekind.IsVirtual(node) {
			f.Found, f.Remedy = "is virtual, so its pods run elsewhere and no daemon can run on it", "exclude the node from the DaemonSet by a node affinity"
		}
		return []findings.Finding{f}
	}
	all := slices.Concat(n.kernelFindings(), n.runtimeFindings())
	if n.Kubelet == nil {
		return all
	}
	if n.Kubelet.CPUManagerPolicy == nodecheck.Static {
		all = append(all, named("kubelet-policy", nodecheck.KubeletStatic("kubelet", "cpuManagerPolicy", "/var/lib/kubelet/cpu_manager_state"))...)
	}
	if theirs := n.Kubelet.TopologyManagerPolicy; theirs == "restricted" || theirs == "single-numa-node" {
		all = append(all, named("kubelet-topology", nodecheck.StricterTopology("guaranteed.options.topology-policy", "best-effort by default", theirs))...)
	}
	return all
}

func (n *Node) kernelFindings() []findings.Finding {
	kernel, err := nodecheck.ParseKernel(n.Kernel)
	if err != nil {
		return nil // the table shows the text of the node
	}
	all := slices.Concat(named("kernel-affinity", kernel.Affinity()...), named("kernel-reload", kernel.Reload("systemd")...))
	if kernel.Before(6, 7) {
		all = append(all, named("kernel-partitions", kernel.NoPartitions("cpuset.cpus.exclusive", "does not exist, unless the distribution has added it"))...)
	}
	return all
}

func (n *Node) runtimeFindings() []findings.Finding {
	name, version := n.runtime()
	subject := name + " " + version
	switch {
	case name == "docker":
		return named("runtime", nodecheck.Docker(subject))
	case n.NRI == nriNone:
		return named("nri", nodecheck.WithoutNRI(subject, "has no NRI", "use containerd 2.0, CRI-O 1.30 or a later version"))
	case n.NRI == nriOff:
		return named("nri", nodecheck.WithoutNRI(subject, "has NRI off by default", nodecheck.EnableNRI))
	}
	return nil
}
