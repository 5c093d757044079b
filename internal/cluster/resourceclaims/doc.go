// Package resourceclaims follows the ResourceClaims, ResourceClaimTemplates and DeviceClasses of a
// cluster, and reports to package admission which claims are for CPUs. It keeps the names of requests
// and classes alone, because a cluster can have a claim for each of its pods.
//
// An API server without resource.k8s.io/v1, before Kubernetes 1.34, has no claims with CPUs. Without
// the right to list claims, all claims are unknown.
package resourceclaims
