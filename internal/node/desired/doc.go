// Package desired turns facts into the desired state of the node. Input holds all
// that a decision depends on: settings, inventory, previous assignments,
// journal. Input.Decide returns the plan and the target of each cgroup. The
// same input gives the same result.
package desired
