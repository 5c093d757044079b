// Package openshift takes a node with CRI-O from OpenShift's workload partitioning to cpupoold and back, as docs/how-to/migrate/openshift.md describes it.
// Its tests run in a guest only.
package openshift
