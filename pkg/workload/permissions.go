package workload

import (
	"maps"
	"slices"
)

// Permissions are the workload types that namespaces allow by their annotations, by
// namespace. Those that allow none and never did are not in it. A value is not changed
// once made; the zero value allows nothing.
type Permissions map[string]Permission

// Permission is what a namespace allows, and what it has allowed before.
type Permission struct {
	Types []string `json:"types,omitempty"` // sorted
	// Ended says of types that are allowed no longer when that was found, in
	// nanoseconds since the epoch.
	Ended   map[string]int64 `json:"ended,omitempty"`
	Deleted bool             `json:"deleted,omitempty"` // there is no such namespace any more
}

// Bounds of what a namespace may make others remember.
const (
	maxTypes = 64 // more than any node has partitions
	maxType  = 63 // bytes, as a DNS label
	// afterlife is how long a namespace that is deleted is remembered: its pods end
	// within minutes of it, as a rule before.
	afterlife = 24 * 3600 * 1e9 // nanoseconds
)

// Allows says whether a pod of the namespace, whose sandbox was made at this time, may
// have the workload type. What runs keeps the type when the permission ends. The time is
// in nanoseconds since the epoch, and 0 for a pod that is only being made.
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

// Without returns the permissions when there is no such namespace any more.
func (p Permissions) Without(namespace string, now int64) Permissions {
	if _, known := p[namespace]; !known {
		return p
	}
	return p.become(namespace, Permission{Deleted: true}, now)
}

// become replaces what a namespace allows, and notes what of it has ended.
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

// forgettable says that nobody can tell it from no permission at all.
func (p Permission) forgettable(now int64) bool {
	if len(p.Types) > 0 {
		return false
	}
	for _, at := range p.Ended {
		if !p.Deleted || now-at < afterlife {
			return false
		}
	}
	return true
}

// Equal says that both allow the same, and have.
func (p Permissions) Equal(o Permissions) bool {
	return maps.EqualFunc(p, o, func(a, b Permission) bool {
		return a.Deleted == b.Deleted && slices.Equal(a.Types, b.Types) && maps.Equal(a.Ended, b.Ended)
	})
}
