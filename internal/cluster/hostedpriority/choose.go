package hostedpriority

import (
	"fmt"
	"slices"
	"strconv"
)

// Reason is why a pod of a hosted control plane has the class that it has, and the name of
// a problem.
type Reason string

// Reasons to give a pod another class, and to leave it as it is.
const (
	Sized      Reason = "size"     // that of the cluster's size
	Overridden Reason = "override" // that of an annotation of HyperShift's

	OptedOut  Reason = "opted_out"
	NoCluster Reason = "no_cluster" // no HostedCluster has its control plane there
	Ambiguous Reason = "ambiguous"  // several have
	NoClass   Reason = "no_class"   // the size names none for the role, or one that must not be used
	Unknown   Reason = "unknown"    // nothing is known of HostedClusters
)

// Reasons returns all of them.
func Reasons() []Reason {
	return []Reason{Sized, Overridden, OptedOut, NoCluster, Ambiguous, NoClass, Unknown}
}

// Kinds of problems, besides Ambiguous.
const (
	BadAnnotation Reason = "annotation"    // cannot be understood, or names what there is not
	ClassMissing  Reason = "class_missing" // the cluster has no such PriorityClass
	ClassDiffers  Reason = "class_differs" // its PriorityClass has another value
	EtcdBelow     Reason = "etcd_below"    // a cluster's etcd would not be above its control plane
	UnknownSize   Reason = "unknown_size"  // the size that is written is in no table
	NoSizes       Reason = "no_sizes"      // there is no ClusterSizingConfiguration that can be used
	BadNodePool   Reason = "node_pool"     // cannot be read
)

// Problems returns all kinds.
func Problems() []Reason {
	return []Reason{Ambiguous, BadAnnotation, ClassMissing, ClassDiffers, EtcdBelow, UnknownSize, NoSizes, BadNodePool}
}

// A Problem is what somebody has to mend.
type Problem struct {
	Kind Reason
	Text string
}

// PriorityClasses are those of the cluster, with their values.
type PriorityClasses map[string]int64

// A Choice is what pods of a HostedCluster's control plane get.
type Choice struct {
	// OptedOut says that the cluster takes no part.
	OptedOut bool
	// Size is the name of the cluster's size; empty where there are no sizes.
	Size string
	// Classes are those by role; where one is empty, pods keep theirs.
	Classes [3]string
	// Overridden says of which role an annotation of HyperShift's names the class.
	Overridden [3]bool
	Problems   []Problem
}

// Class is what pods of a role get, "" when they keep their class, and why.
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

// Choose chooses the classes of a cluster with so many worker nodes. Annotations of
// HyperShift's come first; what they name must be there, or they are ignored. Else it is the
// size: what the nodes make it, what it has been before, or dedicated, whichever is larger.
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

// flag reads an annotation that is "true" or "false"; unclear is what it is otherwise.
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

// size is the place of the cluster's size in the table, -1 when that is empty.
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

// recordedElsewhere says that the size which is written is not in the table, as after sizes
// were given other names: whether the one that was chosen is smaller, nobody can say. The
// name stays.
func (c *Choice) recordedElsewhere(t Table, cluster HostedCluster) bool {
	recorded := cluster.Annotations[SizeKey]
	if recorded == "" || t.index(recorded) >= 0 {
		return false
	}
	c.problem(UnknownSize, "annotation %s is %q: there is no such size, and the cluster keeps its classes where those of size %s are lower; add the size to hostedPriority.sizes, or remove the annotation",
		SizeKey, recorded, c.Size)
	c.Size = recorded
	return true
}

// keep takes the class that is written in place of a lower one.
func (c *Choice) keep(have PriorityClasses, role Role, recorded string) {
	value, there := have[recorded]
	if !there || value > HighestValue || badClass(recorded) != "" {
		return
	}
	if now := c.Classes[role]; now == "" || have[now] < value {
		c.Classes[role] = recorded
	}
}

// override takes a class that an annotation names, if it can be used.
func (c *Choice) override(have PriorityClasses, role Role, name string) bool {
	_, base := RoleOf(name)
	if reason := badClass(name); reason != "" && !base && name != operatorClass { // those are HyperShift's
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

// sized takes the class of the cluster's size, if it is there as the table has it: without
// it the pod could not be made, and with another value it might be below a smaller one's.
// Where the table has no values, those of smaller sizes tell.
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
		c.problem(ClassDiffers, "size %s: PriorityClass %s has the value %d, and not %d; delete it and make it anew, or change hostedPriority.sizes",
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

// etcdLast holds a cluster's etcd above its control plane: it goes last. Where what was
// chosen would leave it below, by an annotation or a class that cannot be used, nothing that
// the size has chosen is given; HyperShift's own classes are in that order.
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
		c.problem(EtcdBelow, "%s; pods that no annotation is about keep their classes, and that does not mend it: correct the annotations of HyperShift's", still)
		return
	}
	c.problem(EtcdBelow, "%s; pods that no annotation is about keep their classes: correct the classes, or annotate the cluster with all three", below)
}

// etcdBelow says by which values a pod of the control plane is not below etcd; nothing if
// none is. Who keeps HyperShift's class has its value. Of a class that is not there, there
// are no pods.
func (c *Choice) etcdBelow(have PriorityClasses) string {
	inForce := func(r Role) (string, int64, bool) {
		name := c.Classes[r]
		if name == "" {
			name = r.BaseClass()
		}
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

// Record returns what is to be changed of a cluster's annotations to say what was chosen,
// nil for those that have to go. Who opts out is forgotten, unless it may be a slip; while
// there are no sizes, the one that was written stays.
func (c Choice) Record(annotations map[string]string) map[string]*string {
	want := map[string]string{}
	switch {
	case c.OptedOut && len(c.Problems) > 0:
		return nil
	case !c.OptedOut:
		want[SizeKey] = c.Size
		if c.Size == "" {
			want[SizeKey] = annotations[SizeKey]
		}
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

// A Plan is what pods get in each namespace with a hosted control plane.
type Plan map[string]Choice

// NewPlan chooses for all clusters. Where several have the same namespace, nobody is chosen
// for. It also returns the choices by cluster, in the order of clusters.
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
		if namespace := cluster.ControlPlaneNamespace(); in[namespace] > 1 {
			c.Classes, c.Overridden = [3]string{}, [3]bool{}
			c.problem(Ambiguous, "%s HostedClusters have their control planes in namespace %s; pods there keep their classes", strconv.Itoa(in[namespace]), namespace)
		} else {
			plan[namespace] = c
		}
		choices = append(choices, c)
	}
	for namespace, n := range in {
		if n > 1 {
			plan[namespace] = Choice{Problems: []Problem{{Kind: Ambiguous}}}
		}
	}
	return plan, choices
}

// Class is what a pod in a namespace with a role gets, "" when it keeps its class, and why.
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
