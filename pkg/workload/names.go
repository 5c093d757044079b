package workload

import (
	"slices"
	"strings"
)

// The domains are OpenShift's.
const (
	defaultDomain     = "workload.openshift.io"
	defaultPoolDomain = "openshift.io"
)

// Names says how the annotations are called. The zero value gives the names that
// OpenShift uses.
type Names struct {
	// Domain is a DNS subdomain that stands in for workload.openshift.io in each
	// name; "" is workload.openshift.io itself.
	Domain string
	// PoolDomain stands in for openshift.io in the names of the resources of the
	// shared and the guaranteed pool; "" is openshift.io itself.
	PoolDomain string
}

// The parts that stand before the domain.
const (
	targetPrefix    = "target."
	resourcesPrefix = "resources."
)

// sharesInfix stands between workload type and container name in the old form.
const sharesInfix = ".cpushares/"

// TargetKey is the name of the pod annotation that asks for a workload type.
func (n Names) TargetKey(typ string) string { return targetPrefix + n.domain() + "/" + typ }

// ResourcesKey is the name of the pod annotation with a container's resources.
func (n Names) ResourcesKey(container string) string {
	return resourcesPrefix + n.domain() + "/" + container
}

// WarningKey is the name of the pod annotation that says why a webhook has not
// honoured what a pod asks for.
func (n Names) WarningKey() string { return n.domain() + "/warning" }

// Claims says that an annotation of this name, on a pod, asks for a workload type
// or gives a container resources, in either form. Whoever cannot trust the pod's
// author removes them.
func (n Names) Claims(key string) bool {
	domain := n.domain()
	if _, ok := cutKey(key, targetPrefix, domain); ok {
		return true
	}
	if _, ok := cutKey(key, resourcesPrefix, domain); ok {
		return true
	}
	// Most names have a slash and no such infix; the reversed domain is made for the others only.
	if !strings.Contains(key, sharesInfix) {
		return false
	}
	_, _, ok := cutOldKey(key, n.oldDomain())
	return ok
}

func (n Names) domain() string {
	if n.Domain == "" {
		return defaultDomain
	}
	return n.Domain
}

// oldDomain is the domain with its labels in reverse order, as the old form of
// the resources annotation starts with: io.openshift.workload.
func (n Names) oldDomain() string {
	labels := strings.Split(n.domain(), ".")
	slices.Reverse(labels)
	return strings.Join(labels, ".")
}

func (n Names) oldSharesKey(typ, container string) string {
	return n.oldDomain() + "." + typ + sharesInfix + container
}

// cutKey returns what follows prefix, domain and slash in key. It is called for
// each annotation of each pod and does not allocate.
func cutKey(key, prefix, domain string) (string, bool) {
	rest, ok := strings.CutPrefix(key, prefix)
	if !ok {
		return "", false
	}
	if rest, ok = strings.CutPrefix(rest, domain); !ok {
		return "", false
	}
	return strings.CutPrefix(rest, "/")
}

// cutOldKey splits a name of the old form into workload type and container.
func cutOldKey(key, oldDomain string) (typ, container string, ok bool) {
	rest, ok := strings.CutPrefix(key, oldDomain)
	if !ok {
		return "", "", false
	}
	if rest, ok = strings.CutPrefix(rest, "."); !ok {
		return "", "", false
	}
	// A type may have dots of its own, a container name has neither dot nor slash.
	i := strings.LastIndex(rest, sharesInfix)
	if i < 0 {
		return "", "", false
	}
	return rest[:i], rest[i+len(sharesInfix):], true
}
