package scenario

import "strings"

const head = `apiVersion: config.cpupoold.io/v1alpha1
kind: CPUPoolConfiguration
partitions:
- {type: management, cpus: "0", namespaces: [kube-system]}
`

// Configurations are those that reloads change between, for eight CPUs in two NUMA
// nodes, with the units of Units. The shared pool keeps 2 CPUs where CPUs come out of
// it, because two single CPUs that change hands without a third are not moved
// (pkg/cgroup).
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

// Partitions returns the configurations with owners that are partitions. Where owners
// have a pool of their own, most park what is free of it.
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

// Pluggable are the CPUs that may go offline under any of Configurations: a reload to a
// pool without CPUs is refused, and the kernel does not survive that there are none
// outside of partitions.
func Pluggable() []int { return []int{2, 3, 4, 5, 6, 7} }

// Units are the systemd units of Configurations.
func Units() []string { return []string{"du.service", "telegraf.service"} }
