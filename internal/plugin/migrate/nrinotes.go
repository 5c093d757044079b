package migrate

// nriTypeNotes are the keys of a balloon type that have no equivalent.
func nriTypeNotes() map[string]Note {
	const size = "the size of a pool that the plugin changes has no equivalent"
	const choice = "pools are not made and chosen container by container here"
	notes := map[string]Note{
		"namespaces":           {Reason: "pods of a namespace do not enter a pool without an annotation or a request", Remedy: "request whole CPUs with equal limits in the pods of these namespaces for exclusive CPUs"},
		"matchExpressions":     {Reason: "labels and names do not choose a pool here", Remedy: "annotate the pods, or let them request whole CPUs with equal limits"},
		"minCPUs":              {Reason: size, Remedy: "the request of a container is the number of its exclusive CPUs; guaranteed.floor is the least size of the shared pool"},
		"maxCPUs":              {Reason: size, Remedy: "the request of a container is the number of its exclusive CPUs; a CPU limit bounds a container of the shared pool"},
		"minBalloons":          {Reason: "pools that exist before their containers have no equivalent", Remedy: "write a partition with a list of CPUs"},
		"maxBalloons":          {Reason: "the number of exclusive owners has no limit of its own", Remedy: "guaranteed.floor bounds how many CPUs they have together"},
		"components":           {Reason: "a pool that consists of other pools has no equivalent", Remedy: "guaranteed.options.distribute-cpus-across-numa takes CPUs from several NUMA nodes"},
		"preferCloseToDevices": {Reason: "paths of devices are not read", Remedy: "exclusive CPUs follow the NUMA nodes of the devices that the kubelet gives the container: guaranteed.options.topology-policy"},
		"shareIdleCPUsInSame":  {Reason: "an exclusive container has no other CPUs, and the shared pool has all CPUs that are not exclusive", Remedy: "guaranteed.mixed adds shared CPUs to exclusive containers"},
		"cpuClass":             {Reason: "frequencies of CPUs have no key here", Remedy: "write power: [governor, cStates], and let pods ask; docs/how-to/manage-power.md has the annotations"},
		"memoryTypes":          {Reason: "types of memory have no equivalent", Remedy: "guaranteed.memory: bind takes the NUMA nodes of the CPUs"},
		"schedulingClass":      {Reason: "scheduling policies and IO priorities have no equivalent", Remedy: "let the application set them"},
		"loads":                {Reason: "the load of neighbours does not choose CPUs here", Remedy: "guaranteed.options.one-owner-per-core keeps other owners off a core"},
		"allocatorPriority":    {Reason: "containers have CPUs in the order of their requests, without priorities", Remedy: ""},
		"showContainersInNrt":  nriNotes()["showContainersInNrt"],
	}
	for _, key := range []string{"componentCreation", "groupBy", "preferSpreadingPods", "preferPerNamespaceBalloon", "preferNewBalloons"} {
		notes[key] = Note{Reason: choice, Remedy: "each container with whole CPUs has exclusive CPUs"}
	}
	notes["componentCreation"] = notes["components"]
	notes["allocatorTopologyBalancing"] = nriNotes()["allocatorTopologyBalancing"]
	return notes
}

// nriNotes are the keys of a policy that have no equivalent.
func nriNotes() map[string]Note {
	const elsewhere = "is not about CPU pools"
	return map[string]Note{
		"idleCPUClass":               {Reason: "frequencies of CPUs have no key here", Remedy: "docs/how-to/manage-power.md has the settings of exclusive CPUs; set other CPUs on the host"},
		"allocatorTopologyBalancing": {Reason: "owners are packed, not spread over sockets and NUMA nodes", Remedy: "guaranteed.options.distribute-cpus-across-numa spreads the CPUs of one owner"},
		"preserve":                   {Reason: "the daemon places each container, and no rule leaves one out", Remedy: "let these containers run in the shared pool"},
		"showContainersInNrt":        {Reason: "the CPUs of containers are not in NodeResourceTopology by a key of the configuration", Remedy: "docs/how-to/topology-scheduler.md describes the objects of the daemon"},
		"loadClasses":                {Reason: "the load of neighbours does not choose CPUs here", Remedy: "guaranteed.options.one-owner-per-core keeps other owners off a core"},
		"schedulingClasses":          {Reason: "scheduling policies and IO priorities have no equivalent", Remedy: "let the application set them"},
		"colocatePods":               {Reason: "CPUs are chosen container by container", Remedy: "pod-level resources give the containers of a pod one set of CPUs"},
		"colocateNamespaces":         {Reason: "namespaces do not choose CPUs here", Remedy: ""},
		"unlimitedBurstable":         {Reason: "containers of Burstable pods without a limit run in the shared pool, which has no part for each NUMA node", Remedy: ""},
		"pinMemory":                  {Reason: "memory of containers without exclusive CPUs follows no pool here", Remedy: "guaranteed.memory: bind binds the memory of exclusive containers"},
		"agent":                      {Reason: elsewhere}, "log": {Reason: elsewhere}, "instrumentation": {Reason: elsewhere},
	}
}
