package workload

import (
	"maps"
	"slices"
	"strings"
)

// Permissions are the workload types that namespaces allow by their annotations, by
// namespace. Namespaces that never allowed a type are omitted. Values are
// immutable; the zero value allows no type.
type Permissions map[string]Permission

// Permission holds the types that a namespace allows, and types that it allowed before.
type Permission struct {
	Types []string `json:"types,omitempty"` // sorted
	// Ended is the time at which a permission was found to have ended, by type, in
	// nanoseconds since the epoch.
	Ended   map[string]int64 `json:"ended,omitempty"`
	Deleted bool             `json:"deleted,omitempty"` // namespace no longer exists
}

// Bounds of the memory that a namespace can use.
const (
	maxTypes = 64 // more than any node has partitions
	maxType  = 63 // bytes, as a DNS label
	// deletedTTL is how long a deleted namespace is remembered: its pods end
	// within minutes of it, usually before.
	deletedTTL = 24 * 3600 * 1e9 // nanoseconds
)

// Allows reports whether a pod of the namespace may have the workload type. made is the
// creation time of its sandbox, in nanoseconds since the epoch; 0 for a pod in creation. A
// running pod keeps the type after the permission has ended.
func (p Permissions) Allows(namespace, typ string, made int64) bool {
	of := p[namespace]
	if slices.Contains(of.Types, typ) {
		return true
	}
	ended, was := of.Ended[typ]
	return was && made != 0 && made < ended
}

// With returns the permissions when a namespace has these annotations, now.
func (p Permissions) With(names Names, namespace string, annotations map[string]string, now int64) Permissions {
	return p.become(namespace, Permission{Types: names.allowedTypes(annotations)}, now)
}

// Without returns the permissions after the deletion of a namespace.
func (p Permissions) Without(namespace string, now int64) Permissions {
	if _, known := p[namespace]; !known {
		return p
	}
	return p.become(namespace, Permission{Deleted: true}, now)
}

// become replaces the permission of a namespace, and records the types that have ended.
func (p Permissions) become(namespace string, after Permission, now int64) Permissions {
	before := p[namespace]
	if slices.Equal(before.Types, after.Types) && before.Deleted == after.Deleted {
		return p
	}
	after.Ended = make(map[string]int64)
	for typ, at := range before.Ended {
		if !slices.Contains(after.Types, typ) {
			after.Ended[typ] = at
		}
	}
	for _, typ := range before.Types {
		if !slices.Contains(after.Types, typ) && len(after.Ended) < maxTypes {
			after.Ended[typ] = now
		}
	}
	next := make(Permissions, len(p)+1)
	maps.Copy(next, p)
	next[namespace] = after
	maps.DeleteFunc(next, func(_ string, of Permission) bool { return of.forgettable(now) })
	return next
}

// forgettable reports whether the permission has the same effect as none.
func (p Permission) forgettable(now int64) bool {
	if len(p.Types) > 0 {
		return false
	}
	for _, at := range p.Ended {
		if !p.Deleted || now-at < deletedTTL {
			return false
		}
	}
	return true
}

// Equal reports whether both allow the same types, now and before.
func (p Permissions) Equal(o Permissions) bool {
	return maps.EqualFunc(p, o, func(a, b Permission) bool {
		return a.Deleted == b.Deleted && slices.Equal(a.Types, b.Types) && maps.Equal(a.Ended, b.Ended)
	})
}

// allowedPrefix stands before the domain in the old form of the namespace's
// annotation.
const allowedPrefix = "allowed."

// Allowed reports whether a namespace with these annotations allows the workload type for
// its pods, and whether it has an annotation about types. Types are
// compared exactly, blanks around them included, as in OpenShift. The old form of
// the annotation, allowed.workload.openshift.io, counts only without the new one.
func (n Names) Allowed(namespace map[string]string, typ string) (allowed, annotated bool) {
	list, annotated := n.allowedList(namespace)
	return typ != "" && slices.Contains(strings.Split(list, ","), typ), annotated
}

// allowedList is the value of the annotation, in its new form or else in the old one.
func (n Names) allowedList(namespace map[string]string) (list string, annotated bool) {
	if list, annotated = namespace[n.AllowedKey()]; annotated {
		return list, true
	}
	list, annotated = namespace[allowedPrefix+n.domain()]
	return list, annotated
}

// allowedTypes returns the types in the list, sorted, without invalid names.
func (n Names) allowedTypes(namespace map[string]string) []string {
	list, _ := n.allowedList(namespace)
	var types []string
	for t := range strings.SplitSeq(list, ",") {
		if t != "" && len(t) <= maxType && len(types) < maxTypes && !slices.Contains(types, t) {
			types = append(types, t)
		}
	}
	slices.Sort(types)
	return types
}
