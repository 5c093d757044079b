package codes

// conditions returns the reasons of conditions of a Node.
func conditions() Group {
	return Group{"Reasons of conditions of a Node", "The conditions CPUPoolsReady and NodeCPUPressure of the Node, and `kubectl cpupool nodes`, show these codes.", []Entry{
		{"AsPlanned", "All containers and units are on the CPUs of their pools.", "containers and units are on the CPUs of their pools", ""},
		{"Starting", "The first pass is not complete.", "the first pass is not over yet", "If the state lasts, read the log of the daemon."},
		{"RuntimeUnavailable", "The daemon cannot reach the container runtime.", "connect to unix:///run/containerd/containerd.sock: no such file or directory", "Start the runtime, or correct containerRuntimeEndpoint. See the runbook CPUPoolSourceLost."},
		{"Observing", "The daemon runs with mode: observe, and writes nothing.", "mode is observe: containers and units are left where they are; 3 writes would put them into their pools", "Set mode: enforce and restart the daemon to enable writes."},
		{"NotAsPlanned", "At least one cgroup does not have its planned value.", "kubepods.slice/cpuset.cpus: device or resource busy", "See the runbook CPUPoolMisplaced."},
		{"ConfigurationRefused", "The file of the configuration has an error. The daemon uses the last valid one.", "an older configuration is in force: guaranteed.cpus: \"4-8\": the machine has no CPU 8", "Correct the file. See the runbook CPUPoolConfigStale."},
		{"ConfigurationAdapted", "The configuration names CPUs that the machine does not have, and the daemon has adapted it.", "the configuration does not fit this machine: CPUs 8 do not exist", "Correct the configuration of this node."},
		{"Degraded", "The node has a problem. The message contains its text.", "CPUs 6-7 are online and in no cgroup: they are not allocated until the machine boots", "Find the code of the problem with `cpupoold status`."},
		{"SharedPoolDepleted", "The shared pool has fewer CPUs than depletion.floor, or not long enough its CPUs again.", "the shared pool has 0 CPUs, and should have 1 (depletion.floor)", "See docs/how-to/handle-depletion.md and the runbook CPUPoolSharedDepleted."},
		{"SharedPoolSufficient", "The shared pool has at least depletion.floor CPUs.", "the shared pool has at least 1 CPUs (depletion.floor)", ""},
	}}
}

// evictions returns the reasons of events of the eviction.
func evictions() Group {
	return Group{"Reasons of events of the eviction", "cpupool-webhook reports these events for pods of depleted nodes.", []Entry{
		{"EvictedForDepletion", "The pod is evicted, because the shared pool of its node is depleted.", "the shared CPUs of node worker-1 are depleted, and the pod has no CPU request", "Give the pod a CPU request, or the node more shared CPUs. See docs/how-to/handle-depletion.md."},
		{"EvictionRefused", "The API server refuses the eviction for now, for example for a disruption budget.", "the shared CPUs of node worker-1 are depleted, and the pod has no CPU request; it is not evicted yet: Cannot evict pod as it would violate the pod's disruption budget.", "Check the PodDisruptionBudget of the pod."},
		{"WouldBeEvicted", "With depletion.eviction: dryRun the webhook reports the pod and does not evict it.", "the shared CPUs of node worker-1 are depleted, and the pod has no CPU request; it would be evicted (depletion.eviction: dryRun)", "Set depletion.eviction to enable evictions, or give the pod a CPU request."},
	}}
}

// warnings returns the reasons of warnings of the webhook.
func warnings() Group {
	return Group{"Warnings of the webhook", "The metric cpupool_webhook_warnings_total counts these codes. `kubectl apply` and `kubectl cpupool mutate` print the warnings, and an annotation of the pod contains them.", []Entry{
		{"type-off", "The pod asks for a workload type that the cluster does not count.", "workload type \"batch\" is ignored: the webhook's configuration has no such type; correct the annotation, or add the type to types", "Correct the annotation, or add the type to the webhook's configuration."},
		{"namespace-not-annotated", "The namespace does not allow the workload type.", "workload type \"management\" is ignored: the namespace has no annotation that allows it", "Annotate the namespace. See docs/how-to/install-webhook.md."},
		{"pod-level-cpu", "The pod asks for CPU in spec.resources, which the workload type cannot replace.", "workload type \"management\" is ignored: the pod asks for CPU in spec.resources, which is counted as cpu; ask for it in its containers", "Request CPU in the containers."},
		{"guaranteed-pod", "The pod is Guaranteed, and a workload type would change its QoS class.", "workload type \"management\" is ignored: the pod is of QoS class Guaranteed; ask for less CPU or memory than its limits", "Request less CPU or memory than the limits."},
		{"qos-class-would-change", "Without its CPU requests the pod would be BestEffort.", "workload type \"management\" is ignored: without its CPU requests the pod's QoS class would be BestEffort instead of Burstable; request memory too", "Request memory in a container."},
		{"cores-without-target", "The pod requests the resource of a workload type without its annotation.", "workload type \"management\" is not asked for by an annotation: its resource was removed …", "Add the annotation, or request cpu."},
		{"resource-off", "The pod requests the resource of a pool that the cluster does not count.", "resource \"openshift.io/shared-cpus\" was removed: its switch in the webhook's configuration is off; set it to auto or on, then create the pod again", "Set the switch of the resource to auto or on, or request cpu."},
		{"annotation-ignored", "The pod has an annotation in the old form, which has no effect.", "annotation \"resources.workload.openshift.io/app\" is ignored, like all in the old form; request cpu instead", "Request cpu in the container, and remove the annotation."},
		{"variable-removed", "The pod sets a variable with which CRI-O would add CPUs to a container.", "environment variable \"OPENSHIFT_SHARED_CPUS\" was removed: CRI-O would add CPUs of other containers to the container; the runtime or cpupoold sets it", "Remove the variable from the manifest."},
		{"pod-pool-empty", "The other containers of the pod use all CPUs of spec.resources.", "container \"log\" gets no CPU: other containers take all CPUs of the pod for themselves, so the node refuses one of the containers; request more cpu in spec.resources", "Request more cpu in spec.resources."},
		{"resource-without-cpu", "A container requests the resource of a pool without the cpu request that decides about it.", "resource \"openshift.io/guaranteed-cpus\" was removed: only cpu requests count for the pools; request cpu instead, for exclusive CPUs as whole CPUs in a Guaranteed pod", "Remove the resource, and request cpu. The webhook writes the resource."},
		{"node-without-daemon", "The pod requests the resource of a pool, and can run only on Windows nodes or virtual nodes.", "resource \"openshift.io/guaranteed-cpus\" is not requested: the pod can run only on nodes without the daemon, such as Windows nodes and virtual nodes; request cpu alone", "Request cpu alone."},
	}}
}

// priorities returns the problems of priority classes of hosted control planes.
func priorities() Group {
	return Group{"Problems of priority classes of hosted control planes", "The log and the metrics of cpupool-webhook show these codes. See docs/how-to/hosted-control-planes.md.", []Entry{
		{"ambiguous", "Several HostedClusters have their control planes in one namespace.", "2 HostedClusters have their control planes in namespace clusters-a; pods there keep their classes", "Give each HostedCluster its own namespace."},
		{"annotation", "An annotation of a HostedCluster has a syntax error, or names a missing object.", "annotation hosted-priority.cpupoold.io/dedicated is \"yes\": write \"true\" or \"false\"", "Correct the annotation."},
		{"class_missing", "The cluster has no such PriorityClass.", "size large: there is no PriorityClass hcp-large-etcd; make it", "Create the PriorityClass."},
		{"class_differs", "A PriorityClass has another value than configured.", "size large: PriorityClass hcp-large-etcd has the value 100, and not 200; delete it and make it again, or change hostedPriority.sizes", "Delete the PriorityClass and create it again, or change hostedPriority.sizes."},
		{"etcd_below", "The etcd of a cluster would not be above its control plane.", "etcd is below its control plane; pods without an annotation for their role keep their classes: correct the classes, or annotate the cluster with all three", "Correct the classes, or annotate the cluster with all three."},
		{"unknown_size", "The recorded size of a cluster is in no table.", "annotation hosted-priority.cpupoold.io/size is \"huge\": there is no such size", "Add the size to hostedPriority.sizes, or remove the annotation."},
		{"no_sizes", "The cluster has no usable ClusterSizingConfiguration.", "the cluster has no ClusterSizingConfiguration cluster; make it, or set hostedPriority.sizesFrom to config", "Create it, or configure hostedPriority.sizes."},
		{"node_pool", "A NodePool cannot be read.", "NodePool clusters/workers counts for no nodes: spec.replicas is not a number", "Correct the NodePool."},
	}}
}
