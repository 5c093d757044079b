// Package recovery finds the exclusive CPUs of containers and units that ran
// before the daemon started, from the journal, the records of the runtime and
// systemd, and the cgroups. It has no state and moves no container. Assignments
// runs once, after the first listing. Late runs in each pass for containers and
// units that the first listing could not describe. rules.go has the rules that
// distinguish exclusive CPUs from shared ones.
package recovery
