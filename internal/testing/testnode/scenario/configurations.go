package scenario

import "strings"

const head = `apiVersion: config.cpupoold.io/v1alpha1
kind: CPUPoolConfiguration
partitions:
- {type: management, cpus: "0", namespaces: [kube-system]}
`

// Configurations returns the configurations of reloads, for eight CPUs in two NUMA nodes, with
// the units of Units. With from: shared, the floor is 2 CPUs: two single CPUs cannot be exchanged
// without a third one (pkg/cgroup).
func Configurations() []string {
	const units = "units: {du.service: {cpus: 2}, telegraf.service: {pool: management}}\n"
	return []string{
		head + "shared: {cpus: \"1\"}\nguaranteed: {cpus: 2-7, mixed: {cpus: 0-1, namespaces: [default]}}\n",
		head + "shared: {cpus: 1-7}\nguaranteed: {from: shared, floor: 2, mixed: {cpus: shared, namespaces: [\"*\"]}}\n",
		head + "shared: {cpus: \"1\"}\nguaranteed: {cpus: 2-7, onRefusal: fail, memory: bind}\n" + units,
		head + "shared: {cpus: 1-7}\nguaranteed: {from: shared, floor: 2, memory: bind, options: {topology-policy: restricted}}\ninfraContainers: management\n" + units,
		head + "shared: {cpus: 1-3}\nguaranteed: {cpus: 4-7, mixed: {cpus: shared, namespaces: [default]}}\ninfraContainers: management\n",
	}
}

// Partitions returns the configurations with cpuset partitions for owners. If owners have a pool
// of their own, most configurations also park its free CPUs.
func Partitions(configs []string) []string {
	var all []string
	for i, c := range configs {
		options := "isolation: partition, "
		if i > 0 && !strings.Contains(c, "from: shared") {
			options += "park: true, "
		}
		all = append(all, strings.Replace(c, "guaranteed: {", "guaranteed: {"+options, 1))
	}
	return all
}

// Pluggable returns the CPUs that may go offline with any of Configurations. The daemon rejects a
// pool without CPUs, and the kernel crashes if all online CPUs are in partitions.
func Pluggable() []int { return []int{2, 3, 4, 5, 6, 7} }

// Units returns the systemd units of Configurations.
func Units() []string { return []string{"du.service", "telegraf.service"} }
