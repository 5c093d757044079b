package workload

// balancingPrefix stands before the domain in the annotation that switches load
// balancing off, balancingOff is its value. crioBalancing is CRI-O's name for the same,
// for all containers of a pod; with a slash and a name behind it, for one.
const (
	balancingPrefix = "cpu-load-balancing."
	balancingOff    = "disable"
	crioBalancing   = "cpu-load-balancing.crio.io"
)

// LoadBalancingKey is the name of the pod annotation that says whether the kernel's
// scheduler balances load on the CPUs that a container has for itself.
func (n Names) LoadBalancingKey(container string) string {
	return balancingPrefix + n.domain() + "/" + container
}

// LoadBalancingOff says that a pod wants no load balancing on the CPUs that the
// container has for itself: its threads stay where they are put. Any value but
// "disable" changes nothing, as with CRI-O.
func (n Names) LoadBalancingOff(annotations map[string]string, container string) bool {
	for _, key := range []string{n.LoadBalancingKey(container), crioBalancing + "/" + container} {
		if value, ok := annotations[key]; ok {
			return value == balancingOff
		}
	}
	return annotations[crioBalancing] == balancingOff
}
