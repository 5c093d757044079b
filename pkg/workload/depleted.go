package workload

// DepletedTaint is the key of the taint on a node whose shared pool is depleted. Pods
// with a CPU request are among what the pool was measured by, and pods of a workload
// type do not run in it; both tolerate it.
const DepletedTaint = "node.cpupoold.io/shared-cpus-depleted"
