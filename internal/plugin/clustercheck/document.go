package clustercheck

import (
	"cmp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cpupoold/cpupoold/internal/findings"
	"github.com/cpupoold/cpupoold/internal/nodekind"
	"github.com/cpupoold/cpupoold/internal/othermanagers"
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
