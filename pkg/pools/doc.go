// Package pools decides which CPUs each container and unit of a node runs on.
//
// It is a function from data to data. [Build] takes pools, machine, pods and the assignments in
// force. It returns the [Plan]: for each container and unit the CPUs with the reason, for each pod
// the values of its slice, and the problems. The caller keeps the assignments of the plan for the
// next call. Equal inputs give equal plans. Package poolspec makes [Pools] of a configuration.
//
// The document docs/explanation/assignments.md states the rules. [PodLevel] is about pods with
// pod-level resources, and [Claim] about ResourceClaims.
package pools
