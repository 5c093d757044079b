package hostedpriority

import (
	"cmp"
	"fmt"
	"slices"
)

// Reason states why a pod of a hosted control plane has its class. It is also the name of a
// kind of problems.
type Reason string

// Reasons to give a pod another class, and to keep its class.
const (
	Sized      Reason = "size"     // the class of the cluster's size
	Overridden Reason = "override" // the class of an annotation of HyperShift

	OptedOut  Reason = "opted_out"
	NoCluster Reason = "no_cluster" // no HostedCluster has its control plane there
	Ambiguous Reason = "ambiguous"  // several HostedClusters have it there
	NoClass   Reason = "no_class"   // the size has no class for the role, or an invalid one
	Unknown   Reason = "unknown"    // the HostedClusters could not be read
)

// Reasons returns all reasons.
func Reasons() []Reason {
	return []Reason{Sized, Overridden, OptedOut, NoCluster, Ambiguous, NoClass, Unknown}
}

// Kinds of problems, in addition to Ambiguous.
const (
	BadAnnotation Reason = "annotation"    // has a syntax error, or names a missing object
	ClassMissing  Reason = "class_missing" // the cluster has no such PriorityClass
	ClassDiffers  Reason = "class_differs" // its PriorityClass has another value
	EtcdBelow     Reason = "etcd_below"    // a cluster's etcd would not be above its control plane
	UnknownSize   Reason = "unknown_size"  // the recorded size is in no table
	NoSizes       Reason = "no_sizes"      // the cluster has no usable ClusterSizingConfiguration
	BadNodePool   Reason = "node_pool"     // cannot be read
)

// Problems returns all kinds.
func Problems() []Reason {
	return []Reason{Ambiguous, BadAnnotation, ClassMissing, ClassDiffers, EtcdBelow, UnknownSize, NoSizes, BadNodePool}
}

// A Problem is an error that an administrator must correct.
type Problem struct {
	Kind Reason
	Text string
}

// PriorityClasses holds the values of the cluster's priority classes by name.
type PriorityClasses map[string]int64

// A Choice holds the classes for pods of a HostedCluster's control plane.
type Choice struct {
	// OptedOut means that pods of the cluster keep their classes.
	OptedOut bool
	// Size is the name of the cluster's size. It is empty without sizes.
	Size string
	// Classes are the classes by role. Pods of a role without a class keep their own.
	Classes [3]string
	// Overridden marks roles whose class comes from an annotation of HyperShift.
	Overridden [3]bool
	Problems   []Problem
}

// Class returns the class for pods of a role, and the reason. It is "" if they keep their
// class.
func (c Choice) Class(r Role) (string, Reason) {
	switch {
	case c.OptedOut:
		return "", OptedOut
	case c.Classes[r] == "":
		return "", NoClass
	case c.Overridden[r]:
		return c.Classes[r], Overridden
	}
	return c.Classes[r], Sized
}

func (c *Choice) problem(kind Reason, format string, args ...any) {
	c.Problems = append(c.Problems, Problem{kind, fmt.Sprintf(format, args...)})
}

// Choose returns the classes of a cluster with the given number of worker nodes. Annotations
// of HyperShift take precedence if their class exists. Otherwise the size of the cluster
// decides. It is the size by nodes or an earlier one, whichever is larger. An annotation can
// request the dedicated size.
func Choose(t Table, have PriorityClasses, cluster HostedCluster, nodes int64) Choice {
	var c Choice
	if c.OptedOut = c.flag(cluster, OptOutKey, true); c.OptedOut {
		return c
	}
	at := c.size(t, cluster, nodes)
	if at >= 0 {
		c.Size = t.sizes[at].name
	}
	gone := at >= 0 && c.recordedElsewhere(t, cluster)
	for _, role := range Roles() {
		if name := cluster.Annotations[role.OverrideKey()]; name != "" && c.override(have, role, name) {
			continue
		}
		if at >= 0 {
			c.sized(have, role, t, at)
		}
		if gone {
			c.keep(have, role, cluster.Annotations[role.ClassKey()])
		}
	}
	c.etcdLast(have)
	return c
}

// flag returns the value of an annotation that is "true" or "false", and unclear for any other
// text.
func (c *Choice) flag(cluster HostedCluster, key string, unclear bool) bool {
	text, there := cluster.Annotations[key]
	switch {
	case !there || text == "false":
		return false
	case text == "true":
		return true
	}
	c.problem(BadAnnotation, "annotation %s is %q: write \"true\" or \"false\"", key, text)
	return unclear
}

// size returns the index of the cluster's size in the table, -1 if the table is empty.
func (c *Choice) size(t Table, cluster HostedCluster, nodes int64) int {
	at := t.counted(nodes)
	if c.flag(cluster, DedicatedKey, false) {
		if t.dedicated {
			return len(t.sizes) - 1
		}
		c.problem(BadAnnotation, "annotation %s is \"true\", and no size is the dedicated one; remove it, or add such a size to hostedPriority.sizes", DedicatedKey)
	}
	return max(at, t.index(cluster.Annotations[SizeKey]), t.index(cluster.Had))
}

// recordedElsewhere reports whether the recorded size is not in the table, for example after
// sizes were renamed. Then it is unknown whether the new size is smaller, and the recorded
// name stays.
func (c *Choice) recordedElsewhere(t Table, cluster HostedCluster) bool {
	recorded := cluster.Annotations[SizeKey]
	if recorded == "" || t.index(recorded) >= 0 {
		return false
	}
	c.problem(UnknownSize, "annotation %s is %q: there is no such size, and the cluster keeps its classes where the classes of size %s are lower; add the size to hostedPriority.sizes, or remove the annotation",
		SizeKey, recorded, c.Size)
	c.Size = recorded
	return true
}

// keep replaces a lower class by the recorded one.
func (c *Choice) keep(have PriorityClasses, role Role, recorded string) {
	value, there := have[recorded]
	if !there || value > HighestValue || badClass(recorded) != "" {
		return
	}
	if now := c.Classes[role]; now == "" || have[now] < value {
		c.Classes[role] = recorded
	}
}

// override takes the class of an annotation, and reports whether it can be used.
func (c *Choice) override(have PriorityClasses, role Role, name string) bool {
	_, base := RoleOf(name)
	if reason := badClass(name); reason != "" && !base && name != operatorClass { // HyperShift's own classes are allowed
		c.problem(BadAnnotation, "annotation %s is %q: %s", role.OverrideKey(), name, reason)
		return false
	}
	if value, there := have[name]; !there || value > HighestValue {
		c.problem(BadAnnotation, "annotation %s is %q: there is no such PriorityClass; make it, or remove the annotation", role.OverrideKey(), name)
		return false
	}
	c.Classes[role], c.Overridden[role] = name, true
	return true
}

// sized takes the class of the cluster's size, if it exists with the value in the table. A pod
// with a missing class cannot be created, and a class with another value may be lower than
// the class of a smaller size. If the table has no values, sized compares with the classes of
// smaller sizes.
func (c *Choice) sized(have PriorityClasses, role Role, t Table, at int) {
	class := t.sizes[at].classes[role]
	if class.Name == "" {
		return
	}
	value, there := have[class.Name]
	switch {
	case !there:
		c.problem(ClassMissing, "size %s: there is no PriorityClass %s; make it", t.sizes[at].name, class.Name)
		return
	case t.values && value != class.Value || value > HighestValue:
		c.problem(ClassDiffers, "size %s: PriorityClass %s has the value %d, and not %d; delete it and make it again, or change hostedPriority.sizes",
			t.sizes[at].name, class.Name, value, class.Value)
		return
	}
	c.Classes[role] = class.Name
	for _, smaller := range t.sizes[:at] {
		other := smaller.classes[role].Name
		if more, there := have[other]; there && more > value && more <= HighestValue {
			c.problem(ClassDiffers, "size %s: PriorityClass %s has the value %d, which is less than that of %s, %d, of the smaller size %s, and pods get that one; give the larger size the higher value",
				t.sizes[at].name, class.Name, value, other, more, smaller.name)
			c.Classes[role], value = other, more
		}
	}
}

// etcdLast keeps a cluster's etcd above its control plane, so that etcd is preempted last. An
// annotation or an unusable class can leave it below. Then pods do not get the classes of the
// size: HyperShift's own classes have the right order.
func (c *Choice) etcdLast(have PriorityClasses) {
	below := c.etcdBelow(have)
	if below == "" {
		return
	}
	for _, role := range Roles() {
		if !c.Overridden[role] {
			c.Classes[role] = ""
		}
	}
	if still := c.etcdBelow(have); still != "" {
		c.problem(EtcdBelow, "%s; pods without an annotation for their role keep their classes, and etcd is still not above: correct the annotations of HyperShift", still)
		return
	}
	c.problem(EtcdBelow, "%s; pods without an annotation for their role keep their classes: correct the classes, or annotate the cluster with all three", below)
}

// etcdBelow describes the values with which the control plane is not below etcd. It returns ""
// if the order is right. Pods that keep HyperShift's class have its value. A missing class has
// no pods.
func (c *Choice) etcdBelow(have PriorityClasses) string {
	inForce := func(r Role) (string, int64, bool) {
		name := cmp.Or(c.Classes[r], r.BaseClass())
		value, there := have[name]
		return name, value, there
	}
	etcd, least, there := inForce(Etcd)
	for _, role := range []Role{ControlPlane, APICritical} {
		if name, value, also := inForce(role); there && also && value >= least {
			return fmt.Sprintf("etcd would have the class %s, %d, and %s %s, %d", etcd, least, role, name, value)
		}
	}
	return ""
}

// Record returns the changes of a cluster's annotations that record the choice; nil removes an
// annotation. It removes all annotations of a cluster that opts out, unless that annotation
// has an error. Without sizes, the recorded size stays.
func (c Choice) Record(annotations map[string]string) map[string]*string {
	want := map[string]string{}
	switch {
	case c.OptedOut && len(c.Problems) > 0:
		return nil
	case !c.OptedOut:
		want[SizeKey] = cmp.Or(c.Size, annotations[SizeKey])
		for _, role := range Roles() {
			want[role.ClassKey()] = c.Classes[role]
		}
	}
	changes := map[string]*string{}
	for _, key := range Written() {
		is, there := annotations[key]
		switch value := want[key]; {
		case value == "" && there:
			changes[key] = nil
		case value != "" && is != value:
			changes[key] = &value
		}
	}
	return changes
}

// A Plan holds the choice for each namespace with a hosted control plane.
type Plan map[string]Choice

// NewPlan returns the choices of all clusters, by namespace and in the order of clusters.
// Clusters that share a namespace get no classes.
func NewPlan(t Table, have PriorityClasses, clusters []HostedCluster, pools []NodePool) (Plan, []Choice) {
	type key struct{ namespace, name string }
	nodes, in := map[key]int64{}, map[string]int{}
	for _, p := range pools {
		nodes[key{p.Namespace, p.Spec.ClusterName}] += p.Nodes()
	}
	for _, c := range clusters {
		in[c.ControlPlaneNamespace()]++
	}
	plan, choices := Plan{}, make([]Choice, 0, len(clusters))
	for _, cluster := range clusters {
		c := Choose(t, have, cluster, nodes[key{cluster.Namespace, cluster.Name}])
		namespace := cluster.ControlPlaneNamespace()
		if in[namespace] > 1 {
			c.Classes, c.Overridden = [3]string{}, [3]bool{}
			c.problem(Ambiguous, "%d HostedClusters have their control planes in namespace %s; pods there keep their classes", in[namespace], namespace)
		}
		plan[namespace] = c
		choices = append(choices, c)
	}
	return plan, choices
}

// Class returns the class for a pod of a role in a namespace, and the reason. It is "" if the
// pod keeps its class.
func (p Plan) Class(namespace string, role Role) (string, Reason) {
	c, there := p[namespace]
	switch {
	case !there:
		return "", NoCluster
	case slices.ContainsFunc(c.Problems, func(p Problem) bool { return p.Kind == Ambiguous }):
		return "", Ambiguous
	}
	return c.Class(role)
}
