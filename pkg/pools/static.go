package pools

import (
	"slices"
	"strings"
)

// StaticPods says which static pods may ask for a workload type. The zero value
// lets none.
type StaticPods struct {
	// All lets those of every namespace.
	All bool
	// Namespaces are those whose static pods may; it is empty with All.
	Namespaces []string
}

func (s StaticPods) allow(namespace string) bool {
	return s.All || slices.Contains(s.Namespaces, namespace)
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
	return p.saysStatic() && p.Annotations[hashKey] == p.UID && isDigest(p.UID)
}

func (p *Pod) saysStatic() bool {
	source := p.Annotations[sourceKey]
	return source == sourceFile || source == sourceHTTP
}

// isDigest says that a UID has the form that the kubelet gives to those of manifests
// (pkg/kubelet/config, applyDefaults). UUIDs have dashes.
func isDigest(uid string) bool {
	const digits = 32
	return len(uid) == digits && strings.Trim(uid, "0123456789abcdef") == ""
}
