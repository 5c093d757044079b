// Package cpuclaim decides which ResourceClaims (resource.k8s.io/v1) are for CPUs of the driver
// cpu.cpupoold.io. The webhook and kubectl-cpupool share the decision. It reads claims before the
// scheduler allocates them, so some of them stay [Unclear]. All functions are pure.
package cpuclaim
