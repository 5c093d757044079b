// Package podlevel tests pods with pod-level resources (spec.resources) on a real node: the CPUs that the kernel reports for their containers. It
// runs in the guest (build tag "guest"). The rows have the numbers of pkg/pools/testdata/pod-level/rows.txtar.
package podlevel
