// Package podlevel tests that the webhook and the accounts of the node agree about pods with
// spec.resources, for each row of the planner's decision table
// (pkg/pools/testdata/pod-level/rows.txtar).
package podlevel
