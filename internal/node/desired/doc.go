// Package desired turns facts into the desired state of the node. Input holds all
// facts of a decision: settings, inventory, previous assignments, journal.
// Input.Decide returns the plan and the target of each cgroup; the same input
// gives the same result. Settings owns the configuration in force, and
// OtherManagers the containers that other CPU managers place.
package desired
