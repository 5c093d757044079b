package codes

// nodeProblems returns the problems of a node.
func nodeProblems() Group {
	return Group{"Problems of the node", "`cpupoold status` and `cpupoold events` print these codes. The condition CPUPoolsReady of the Node shows the first problem.", []Entry{
		{"IdleShared", "The shared pool uses CPUs that should be idle next to owners (one-owner-per-core).", "… but the shared pool needs them for its floor (guaranteed.floor) until owners end", "Lower guaranteed.floor, or end an owner."},
		{"BelowFloor", "The shared pool has fewer CPUs than guaranteed.floor.", "the shared pool has 1 CPUs and should have 2 (guaranteed.floor)…", "End owners, or lower guaranteed.floor."},
		{"SharedDepleted", "The shared pool has fewer CPUs than depletion.floor. It is also the reason of an event and of a condition of the Node.", "the shared pool has 0 CPUs …, and should have 1 (depletion.floor); pods without a CPU request have no others", "See docs/how-to/handle-depletion.md and the runbook CPUPoolSharedDepleted."},
		{"JournalNotWritten", "The journal of original values is late, so a restore may not know all of them.", "journal /var/lib/cpupoold/journal: no space left on device; `cpupoold restore` may not know every original until then. Make room on the disk, or repair it", "Make room in stateDir, or repair its disk."},
		{"CPUsWithheld", "A cgroup, or the container in which the node runs, withholds CPUs of the pools.", "the cpuset partition of radio.slice has CPUs 7: the pools are without these CPUs, as if they were offline", "Remove the partition, or remove the CPUs from the pools."},
		{"NRIOtherRuntime", "Another container runtime listens on the NRI socket.", "another container runtime listens on the NRI socket /var/run/nri/nri.sock: containers begin on all CPUs, and are placed when their runtime reports them", "Give the other runtime another socket. Restart it, and then the runtime of the pods."},
		{"KubeletUnread", "The CPU manager state of the kubelet cannot be read (guaranteed.exclusive: kubelet).", "its allocation of CPUs is unknown or outdated: no such file; the last known one stays in force; check that kubeletStateDir is the kubelet's state directory", "Set kubeletStateDir to the state directory of the kubelet."},
		{"KubeletNotStatic", "The kubelet allocates no exclusive CPUs, although guaranteed.exclusive is kubelet.", "its CPU manager policy is none: no container gets exclusive CPUs; set cpuManagerPolicy: static, or remove guaranteed.exclusive and restart the daemon", "Set cpuManagerPolicy: static in the kubelet, or remove guaranteed.exclusive."},
		{"KubeletUnheard", "The runtime does not ask over NRI, so writes of the kubelet take effect until the daemon repairs them.", "the runtime does not ask over NRI: writes of the kubelet to management pods are repaired afterwards only; enable NRI in the runtime", "Enable NRI in the runtime."},
		{"SystemPartitionOverlap", "The kubelet's system partition has CPUs of the guaranteed pool.", "its system partition /system has CPUs 4 of the guaranteed pool: no new owner gets these CPUs", "Give the two different CPUs, or remove systemPartition.cpuset from the kubelet's configuration."},
		{"NoPartitions", "guaranteed.isolation asks for partitions, and the node cannot have them.", "guaranteed.isolation is partition, and the kernel has no remote partitions: 6.11 and later have; exclusive CPUs are kept by cpusets alone", "Use kernel 6.11 or later, or set guaranteed.isolation: cpuset. See docs/explanation/isolation.md."},
		{"NoPartition", "One owner has no partition. Only cpusets keep its CPUs exclusive.", "its CPUs are its own by cpusets alone: another container of the pod has these CPUs in its cpuset", "Remove the cause in the text: a process that writes cpusets, or a kernel before 7.0."},
		{"ForeignPartition", "A cgroup is a partition that is not in the journal of cpupoold.", "kubepods.slice is a partition (root) that is not in cpupoold's journal: its cpuset.cpus has no effect; write member to its cpuset.cpus.partition", "Write member to cpuset.cpus.partition of the cgroup, and stop the program that made it."},
		{"StuckPartition", "The kernel refuses to end a partition, so its CPUs are missing elsewhere.", "the kernel refuses to end the partition kubepods.slice: device or resource busy; its CPUs are missing elsewhere", "Restart the pod of the partition. If the code remains, reboot the node."},
		{"LeakedCPUs", "CPUs are online and in no cgroup: an error of the kernel.", "CPUs 6-7 are online and in no cgroup: they are not allocated until the machine boots", "Reboot the node. See the runbook CPUPoolCPUsLeaked."},
		{"NoParking", "guaranteed.park is true, but free CPUs are not parked.", "guaranteed.park is true, and free CPUs are not parked: with guaranteed.isolation auto this kernel makes no partitions (7.0 and later do)", "Remove the cause in the text, or set guaranteed.park: false."},
	}}
}

// hostSettings returns the problems of settings of the host.
func hostSettings() Group {
	return Group{"Problems of host settings", "`cpupoold status` prints these codes for interrupts, kernel threads and power settings.", []Entry{
		{"HostSettingsUnread", "A setting of the host cannot be read.", "read /proc/irq/24/smp_affinity_list: permission denied", "Mount /proc and /sys of the host, and run the daemon as root."},
		{"HostSettingsUndo", "The undo record cannot be read or written, so host settings do not change.", "host settings do not change because the undo record cannot be written: no space left on device", "Make room in stateDir, or repair its disk."},
		{"HostSettingsFailed", "The kernel refuses a setting.", "write /proc/irq/24/smp_affinity_list: permission denied", "Give the daemon CAP_NET_ADMIN and CAP_SYS_NICE, and mount /proc/irq and /sys/devices writable. See the runbook CPUPoolHostSettingsStuck."},
		{"HostSettingsContested", "Another process keeps changing a setting.", "interrupt 24: another process writes 0-7 after each change", "Find the other process (irqbalance, tuned, a script of the driver) and stop one of the two."},
		{"HostSettingsNoCPULeft", "All online CPUs are excluded from a setting.", "interrupt 24: no CPU is left", "Keep a CPU for interrupts: outside of the guaranteed pool, or of a pod that accepts them."},
		{"IrqbalanceUnreachable", "irqbalance runs, but its socket cannot be used.", "irqbalance runs without its socket and may move interrupts back; create /run/irqbalance before it starts (RuntimeDirectory=irqbalance in its unit), or stop it", "Mount /run/irqbalance, or stop irqbalance."},
	}}
}

// refusals returns the causes why an owner does not get exclusive CPUs.
func refusals() Group {
	const defrag = "Request fewer CPUs, weaken the option, or use `cpupoold plan --defrag`."
	return Group{"Causes of refusals", "`cpupoold explain`, `kubectl cpupool simulate` and the metric of refusals print these codes. They state why a request for exclusive CPUs cannot be satisfied.", []Entry{
		{"TooFewFree", "Fewer CPUs are free than requested.", "2 of 8 CPUs of the guaranteed pool are free", "Request fewer CPUs, enlarge the guaranteed pool, or wait."},
		{"Floor", "The shared pool would have fewer CPUs than guaranteed.floor.", "the shared pool has 2 CPUs and keeps 2 of them (guaranteed.floor)", "Lower guaranteed.floor, request fewer CPUs, or wait."},
		{"BadOptions", "The options contradict each other.", "full-pcpus-only and distribute-cpus-across-cores contradict each other", "Correct guaranteed.options, or the annotations of the pod."},
		{"SMTAlignment", "With full-pcpus-only the number of CPUs is not a multiple of the threads of a core.", "full-pcpus-only gives whole cores of 2 threads, and 3 is no multiple of it; ask for 4, or turn the option off", "Request a multiple of the threads of a core, or turn the option off."},
		{"TooFewWholeCores", "With full-pcpus-only too few cores are completely free.", "full-pcpus-only takes only cores that are wholly free, and those do not add up; ask for fewer, or see cpupoold plan --defrag", defrag},
		{"TooFewUntouchedCores", "With one-owner-per-core the free CPUs are in cores of other owners or pools.", "… has a part (one-owner-per-core); ask for fewer, or wait until others end", defrag},
		{"TooFewIsolated", "With isolated-cpus: require too few CPUs are isolated since boot.", "isolated-cpus: require takes only CPUs that the kernel isolates since boot (isolcpus); write prefer, or isolate more", "Write isolated-cpus: prefer, or add CPUs to the kernel argument isolcpus=."},
		{"TooFewOfCoreType", "Too few CPUs of the required type of core are free.", "core-type: performance takes only cores of that kind; write prefer-performance, or ask for fewer", "Write the option with prefer-, or request fewer CPUs."},
		{"NotOnOneNode", "With single-numa-node no NUMA node has enough free CPUs.", "no NUMA node has room for all (topology-policy: single-numa-node); ask for fewer, set topology-policy: best-effort, or see cpupoold plan --defrag", defrag},
		{"NotOnHintedNodes", "With restricted the NUMA nodes of the devices and memory have too few free CPUs.", "NUMA nodes 1 of the devices and memory have too few left (topology-policy: restricted); wait until others end, set topology-policy: best-effort, or see cpupoold plan --defrag", defrag},
		{"NotOnFewestNodes", "With restricted the request needs more NUMA nodes now than on an empty machine.", "NUMA nodes that are enough on the empty machine: 1, and now they are not (topology-policy: restricted); ask for fewer, set topology-policy: best-effort, or see cpupoold plan --defrag", defrag},
		{"PodPoolEmpty", "The containers of a pod with pod-level resources need more CPUs than the pod has.", "its pod has 4 CPUs, and other containers of the pod have 4 of them; raise the CPUs of the pod, or lower the CPUs of its containers", "Raise cpu in spec.resources, or lower the requests of the containers."},
	}}
}
