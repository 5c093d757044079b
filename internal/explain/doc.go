// Package explain returns the reasons for the CPUs of a container or a systemd unit. It repeats
// the decision of the planner with the same input, and notes each rule. It also lists the parts
// of the machine that were candidates, and changes that move a container to another pool. Pure.
package explain
