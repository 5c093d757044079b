package hostedpriority

// A Role is what a pod of a hosted control plane is there for, as far as HyperShift gives
// such pods priority classes of their own.
type Role int

// The roles, in the order of their priority.
const (
	ControlPlane Role = iota
	APICritical       // API servers and what leads to them
	Etcd
)

// Roles returns all of them.
func Roles() []Role { return []Role{ControlPlane, APICritical, Etcd} }

// String is the role as in the names of classes and annotations.
func (r Role) String() string { return [...]string{"control-plane", "api-critical", "etcd"}[r] }

// BaseClass is the priority class that HyperShift gives pods of the role. The class
// hypershift-operator is no role's: it is never replaced.
func (r Role) BaseClass() string { return "hypershift-" + r.String() }

// OverrideKey is HyperShift's annotation of a HostedCluster with the class of the role.
func (r Role) OverrideKey() string {
	return "hypershift.openshift.io/" + r.String() + "-priority-class"
}

// ClassKey is the annotation of a HostedCluster that says which class pods of the role get.
func (r Role) ClassKey() string { return domain + r.String() + "-class" }

// Annotations of a HostedCluster that are this package's.
const (
	domain = "hosted-priority.cpupoold.io/"

	// OptOutKey leaves the pods of the cluster as they are, when it is "true".
	OptOutKey = domain + "opt-out"
	// DedicatedKey makes the cluster one of the dedicated size, when it is "true".
	DedicatedKey = domain + "dedicated"
	// SizeKey is the size that was chosen. It is written here, as the keys of classes are.
	SizeKey = domain + "size"
)

// Written returns the annotations that are written, and no others.
func Written() []string {
	keys := []string{SizeKey}
	for _, r := range Roles() {
		keys = append(keys, r.ClassKey())
	}
	return keys
}

// RoleOf is the role of pods with a priority class, and false for all classes but
// HyperShift's three.
func RoleOf(class string) (Role, bool) {
	for _, r := range Roles() {
		if class == r.BaseClass() {
			return r, true
		}
	}
	return 0, false
}
