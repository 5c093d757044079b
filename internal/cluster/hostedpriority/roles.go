package hostedpriority

// A Role is the purpose of a pod of a hosted control plane. HyperShift has a priority class
// for each role.
type Role int

// The roles, in the order of their priority.
const (
	ControlPlane Role = iota
	APICritical       // API servers and the way to them
	Etcd
)

// Roles returns all roles, in the order of their priority.
func Roles() []Role { return []Role{ControlPlane, APICritical, Etcd} }

// String returns the role as in the names of classes and annotations.
func (r Role) String() string { return [...]string{"control-plane", "api-critical", "etcd"}[r] }

// BaseClass returns the priority class that HyperShift gives to pods of the role. The class
// hypershift-operator belongs to no role and is never replaced.
func (r Role) BaseClass() string { return "hypershift-" + r.String() }

// OverrideKey returns HyperShift's annotation of a HostedCluster with the class of the role.
func (r Role) OverrideKey() string {
	return "hypershift.openshift.io/" + r.String() + "-priority-class"
}

// ClassKey returns the annotation of a HostedCluster that records the class for pods of the
// role.
func (r Role) ClassKey() string { return domain + r.String() + "-class" }

// Annotations of a HostedCluster that this package reads and writes.
const (
	domain = "hosted-priority.cpupoold.io/"

	// OptOutKey with the value "true" keeps the classes of the cluster's pods.
	OptOutKey = domain + "opt-out"
	// DedicatedKey with the value "true" gives the cluster the dedicated size.
	DedicatedKey = domain + "dedicated"
	// SizeKey is the chosen size. The package writes it and the keys of classes.
	SizeKey = domain + "size"
)

// Written returns the annotations that the package writes.
func Written() []string {
	keys := []string{SizeKey}
	for _, r := range Roles() {
		keys = append(keys, r.ClassKey())
	}
	return keys
}

// RoleOf returns the role of pods with a priority class of HyperShift, and false for other
// classes.
func RoleOf(class string) (Role, bool) {
	for _, r := range Roles() {
		if class == r.BaseClass() {
			return r, true
		}
	}
	return 0, false
}
