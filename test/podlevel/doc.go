// Package podlevel tests that the parts of cpupoold agree about pods with spec.resources. The
// parts are the daemon, the webhook, the commands of kubectl-cpupool, and the accounts of the node. The
// tests check each row of the planner's decision table (pkg/pools/testdata/pod-level/rows.txtar).
package podlevel
