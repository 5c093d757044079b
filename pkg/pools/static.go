package pools

import "strings"

// StaticPods says which static pods may ask for a workload type. The zero value
// lets none.
type StaticPods struct {
	// All lets those of every namespace.
	All        bool
	Namespaces []string // those whose static pods may; it is empty with All
}

// What the kubelet writes into the annotations of each pod's sandbox
// (kubernetes pkg/kubelet/types: ConfigSourceAnnotationKey, ConfigHashAnnotationKey).
const (
	sourceKey  = "kubernetes.io/config.source"
	hashKey    = "kubernetes.io/config.hash"
	sourceFile = "file"
	sourceHTTP = "http"
)

// Static says whether the kubelet has read the pod from a manifest of the node's.
//
// Who makes a pod through the API can write any annotation. The kubelet replaces the
// source with the true one (pkg/kubelet/config, podStorage.merge); but a program that
// makes sandboxes need not. What nobody can choose is the UID: an API server gives
// each pod a random UUID, and the kubelet each manifest its MD5, as 32 hex digits.
func (p *Pod) Static() bool {
	const digits = 32 // UUIDs have dashes
	return p.saysStatic() && p.Annotations[hashKey] == p.UID && len(p.UID) == digits && strings.Trim(p.UID, "0123456789abcdef") == ""
}

func (p *Pod) saysStatic() bool {
	source := p.Annotations[sourceKey]
	return source == sourceFile || source == sourceHTTP
}
