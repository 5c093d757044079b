package pools

import "strings"

// StaticPods configures which static pods may request a workload type. The zero value
// allows none.
type StaticPods struct {
	// All allows static pods of every namespace.
	All        bool
	Namespaces []string // namespaces whose static pods may; empty with All
}

// The kubelet's annotations on the sandbox of each pod
// (kubernetes pkg/kubelet/types: ConfigSourceAnnotationKey, ConfigHashAnnotationKey).
const (
	sourceKey  = "kubernetes.io/config.source"
	hashKey    = "kubernetes.io/config.hash"
	sourceFile = "file"
	sourceHTTP = "http"
)

// Static reports whether the kubelet has read the pod from a manifest of the node's.
//
// A pod created through the API can have any annotation. The kubelet replaces the
// source with the true one (pkg/kubelet/config, podStorage.merge), but another CRI
// client need not. The UID cannot be chosen: an API server generates a random UUID for
// each pod, and the kubelet the MD5 of each manifest, as 32 hex digits.
func (p *Pod) Static() bool {
	const digits = 32 // UUIDs have dashes
	return p.claimsStatic() && p.Annotations[hashKey] == p.UID && len(p.UID) == digits && strings.Trim(p.UID, "0123456789abcdef") == ""
}

func (p *Pod) claimsStatic() bool {
	source := p.Annotations[sourceKey]
	return source == sourceFile || source == sourceHTTP
}
