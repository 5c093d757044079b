package clustercheck

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cpupoold/cpupoold/internal/findings"
	"github.com/cpupoold/cpupoold/internal/nodecheck"
	"github.com/cpupoold/cpupoold/internal/nodekind"
	"github.com/cpupoold/cpupoold/internal/othermanagers"
	"github.com/cpupoold/cpupoold/internal/plugin/quota"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

const version = 1

// Input holds the objects of a cluster.
type Input struct {
	Names workload.Names
	Nodes []corev1.Node
	// Kubelets holds the configurations of the kubelets by node, as far as they were read.
	Kubelets   map[string]Kubelet
	DaemonSets []appsv1.DaemonSet
	Pods       []metav1.PartialObjectMetadata
	Quotas     []corev1.ResourceQuota
	// Partitioning is status.cpuPartitioning of OpenShift's Infrastructure; empty elsewhere.
	Partitioning string
	// Unread holds the facts that could not be read.
	Unread []Unread
}

// Kubelet holds the keys of a kubelet's configuration that matter.
type Kubelet struct {
	CPUManagerPolicy      string `json:"cpuManagerPolicy,omitempty"`
	TopologyManagerPolicy string `json:"topologyManagerPolicy,omitempty"`
	MemoryManagerPolicy   string `json:"memoryManagerPolicy,omitempty"`
	CgroupDriver          string `json:"cgroupDriver,omitempty"`
	ReservedSystemCPUs    string `json:"reservedSystemCPUs,omitempty"`
	FailCgroupV1          bool   `json:"failCgroupV1,omitempty"`
}

// Document is the result.
type Document struct {
	Version  int       `json:"version"`
	Nodes    []Node    `json:"nodes"`
	Findings []Finding `json:"findings"`
	Unread   []Unread  `json:"unread"`
}

// Node is a node as far as the API shows it.
type Node struct {
	Name    string `json:"name"`
	OS      string `json:"os"`
	Kernel  string `json:"kernel"`
	Runtime string `json:"runtime"`
	// NRI is the default of this version of the runtime: on, off or none. It is empty for an
	// unknown version. The API does not show the runtime's configuration.
	NRI     string `json:"nriDefault,omitempty"`
	Version string `json:"kubelet"`
	// Cgroup is v2 if the kubelet refuses to start with v1, else empty.
	Cgroup string `json:"cgroup,omitempty"`
	// Kubelet is nil if its configuration was not read.
	Kubelet *Kubelet `json:"kubeletConfiguration,omitempty"`
}

// Finding is a finding with the nodes that have it.
type Finding struct {
	findings.Finding
	// Nodes is empty if the finding is about the cluster.
	Nodes []string `json:"nodes,omitempty"`
}

// Unread is a fact that could not be read.
type Unread struct {
	What  string   `json:"what"`
	Nodes []string `json:"nodes,omitempty"`
	Why   string   `json:"why"`
}

// Of returns the nodes by name, and the findings by descending severity.
func Of(in Input) Document {
	d := Document{Version: version, Nodes: []Node{}, Findings: []Finding{}, Unread: []Unread{}}
	for i := range in.Nodes {
		n := nodeOf(&in.Nodes[i])
		if k, read := in.Kubelets[n.Name]; read {
			n.Kubelet = &k
			if k.FailCgroupV1 {
				n.Cgroup = "v2"
			}
		}
		d.Nodes = append(d.Nodes, n)
		d.add(n.Name, n.findings(&in.Nodes[i])...)
		if nodekind.CanRun(&in.Nodes[i]) && n.Cgroup == "" {
			in.Unread = append(in.Unread, Unread{What: "version of cgroups", Nodes: []string{n.Name},
				Why: "the API shows it only if failCgroupV1 of the kubelet is true; run cpupoold check on the node"})
		}
	}
	d.add("", in.managers()...)
	d.add("", in.quotas()...)
	requests := othermanagers.Requests{}
	for i := range in.Pods {
		requests.Add(in.Pods[i].Namespace+"/"+in.Pods[i].Name, in.Pods[i].Annotations)
	}
	d.add("", named("other-annotations", requests.Findings()...)...)
	for _, u := range in.Unread {
		d.addUnread(u)
	}
	slices.SortFunc(d.Nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortStableFunc(d.Findings, func(a, b Finding) int { return findings.Compare(a.Finding, b.Finding) })
	for i := range d.Findings {
		slices.Sort(d.Findings[i].Nodes)
	}
	slices.SortFunc(d.Unread, func(a, b Unread) int { return cmp.Or(cmp.Compare(a.What, b.What), cmp.Compare(a.Why, b.Why)) })
	for i := range d.Unread {
		slices.Sort(d.Unread[i].Nodes)
	}
	return d
}

// add adds findings of a node. Equal findings of several nodes become one.
func (d *Document) add(node string, all ...findings.Finding) {
	for _, f := range all {
		at := slices.IndexFunc(d.Findings, func(g Finding) bool { return g.Finding == f })
		if at < 0 {
			at = len(d.Findings)
			d.Findings = append(d.Findings, Finding{Finding: f})
		}
		if node != "" {
			d.Findings[at].Nodes = append(d.Findings[at].Nodes, node)
		}
	}
}

func (d *Document) addUnread(u Unread) {
	at := slices.IndexFunc(d.Unread, func(v Unread) bool { return v.What == u.What && v.Why == u.Why })
	if at < 0 {
		d.Unread = append(d.Unread, u)
		return
	}
	d.Unread[at].Nodes = append(d.Unread[at].Nodes, u.Nodes...)
}

func named(check string, all ...findings.Finding) []findings.Finding {
	for i := range all {
		all[i].Check = check
	}
	return all
}

// managers returns the other managers of CPUs that run in the cluster.
func (in *Input) managers() []findings.Finding {
	var all []findings.Finding
	for _, d := range in.DaemonSets {
		if d.Status.DesiredNumberScheduled == 0 {
			continue
		}
		subject, names := "DaemonSet "+d.Namespace+"/"+d.Name, namesOf(&d)
		for _, m := range othermanagers.Managers() {
			if slices.ContainsFunc(names, m.Is) {
				all = append(all, named("nri-plugins", m.Finding(subject, false))...)
				break
			}
		}
		if d.Name == "tuned" {
			all = append(all, named("tuned", othermanagers.Tuned(subject))...)
		}
	}
	if in.Partitioning == "AllNodes" {
		all = append(all, named("crio-workloads", othermanagers.Workload("Infrastructure cluster: status.cpuPartitioning AllNodes",
			in.Names.TargetKey("management"), "install a cluster without workload partitioning"))...)
	}
	return all
}

// namesOf returns the names by which a DaemonSet is recognized: its own, and the names of its
// containers, their images and their programs.
func namesOf(d *appsv1.DaemonSet) []string {
	names := []string{d.Name}
	for _, c := range d.Spec.Template.Spec.Containers {
		image, _, _ := strings.Cut(path.Base(c.Image), "@")
		image, _, _ = strings.Cut(image, ":")
		names = append(names, c.Name, image)
		if len(c.Command) > 0 {
			names = append(names, path.Base(c.Command[0]))
		}
	}
	return names
}

// quotas returns the quotas that reject or do not count pods which the webhook has changed: it
// replaces requests of cpu by requests of a pool's resource.
func (in *Input) quotas() []findings.Finding {
	var all []findings.Finding
	for _, q := range in.Quotas {
		for _, key := range slices.Sorted(maps.Keys(q.Spec.Hard)) {
			hard := q.Spec.Hard[key]
			f := findings.Finding{Check: "quota", Severity: findings.Info, Subject: fmt.Sprintf("ResourceQuota %s/%s: %s", q.Namespace, q.Name, key)}
			effect, found := quota.OfQuota(in.Names, "management", string(key), hard)
			if name := string(key)[strings.Index(string(key), ".")+1:]; in.Names.IsPool(string(key)) || in.Names.IsPool(name) {
				f.Severity = findings.Warning
			}
			switch {
			case found:
				f.Found, f.Remedy = fmt.Sprintf("is %s: the quota %s", hard.String(), effect.Text), effect.Remedy
			case f.Severity == findings.Warning:
				f.Found = fmt.Sprintf("is %s: the quota rejects pods that exceed it, after the webhook has added this resource", hard.String())
				f.Remedy = "raise the limit to the CPUs of the namespace's pods in thousandths, or remove it"
			default:
				continue
			}
			all = append(all, f)
		}
	}
	return all
}

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
