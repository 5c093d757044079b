package nodefixture

import (
	"strings"

	"github.com/cpupoold/cpupoold/internal/testing/testnode"
)

// PoolsYAML is a configuration with three pools: management 0-1, shared 2-3, guaranteed 4-7.
const PoolsYAML = `apiVersion: config.cpupoold.io/v1alpha1
kind: CPUPoolConfiguration
partitions:
- type: management
  cpus: 0-1
  namespaces: [kube-system]
shared:
  cpus: 2-3
guaranteed:
  cpus: 4-7
resyncPeriod: 10m
weightFormula: quadratic
`

// ClaimsYAML is a configuration with a list for ResourceClaims: management 0-1, shared 2, guaranteed 3-4,
// claims 5-7.
const ClaimsYAML = `apiVersion: config.cpupoold.io/v1alpha1
kind: CPUPoolConfiguration
partitions:
- type: management
  cpus: 0-1
  namespaces: [kube-system]
guaranteed:
  cpus: 3-4
  claims: {cpus: 5-7}
resyncPeriod: 10m
weightFormula: quadratic
`

// CarvedYAML is a configuration without a guaranteed pool: exclusive CPUs come from the
// shared pool, 2-7.
const CarvedYAML = `apiVersion: config.cpupoold.io/v1alpha1
kind: CPUPoolConfiguration
partitions:
- type: management
  cpus: 0-1
  namespaces: [kube-system]
shared:
  cpus: 2-7
guaranteed:
  from: shared
  floor: 2
resyncPeriod: 10m
weightFormula: quadratic
`

// KubeletYAML is a configuration for a node whose kubelet allocates exclusive CPUs.
const KubeletYAML = `apiVersion: config.cpupoold.io/v1alpha1
kind: CPUPoolConfiguration
partitions:
- type: management
  cpus: 0-1
  namespaces: [kube-system]
guaranteed:
  exclusive: kubelet
resyncPeriod: 10m
weightFormula: quadratic
`

// HostSlicesYAML confines host services to the management pool; tests append it to a
// configuration.
const HostSlicesYAML = "hostSlices: {enabled: true}\n"

// UnitsYAML places two units; tests append it to a configuration.
const UnitsYAML = `units:
  du.service: {cpus: 2}
  telegraf.service: {pool: management}
`

// WithMixed returns a configuration that lets owners of namespace default use cpus in
// addition to their exclusive CPUs.
func WithMixed(yaml, cpus string) string {
	return strings.Replace(yaml, "guaranteed:\n", "guaranteed:\n  mixed: {cpus: \""+cpus+"\", namespaces: [default]}\n", 1)
}

// WithQuiet returns a configuration with a quiet period of at most limit.
func WithQuiet(yaml, limit string) string { return yaml + "quiet: " + limit + "\n" }

// WithFailOnRefusal returns a configuration that stops refused containers.
func WithFailOnRefusal(yaml string) string {
	return strings.Replace(yaml, "  cpus: 4-7\n", "  cpus: 4-7\n  onRefusal: fail\n", 1)
}

// WithPartitions returns a configuration that makes owners cpuset partitions.
func WithPartitions(yaml string) string { return WithIsolation(yaml, "partition") }

// WithIsolation returns a configuration with a value of guaranteed.isolation.
func WithIsolation(yaml, mode string) string {
	return strings.Replace(yaml, "guaranteed:\n", "guaranteed:\n  isolation: "+mode+"\n", 1)
}

// WithParking returns a configuration with parking and a value of guaranteed.isolation.
func WithParking(yaml, mode string) string {
	return strings.Replace(WithIsolation(yaml, mode), "guaranteed:\n", "guaranteed:\n  park: true\n", 1)
}

// KernelLike returns a kernel with the rules of a version, from 6.8 on.
func KernelLike(major, minor int) testnode.CgroupConfig {
	return testnode.CgroupConfig{IdleWeight: 1, ClearPopulated: major >= 7, Partitions: testnode.PartitionsLike(major, minor, 0)}
}
