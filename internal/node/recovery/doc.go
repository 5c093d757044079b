// Package recovery finds the exclusive CPUs of containers that ran before the
// daemon started: from the journal, from the runtime's record and from the
// cgroups. Assignments does this once at the start; Late does it for containers
// that the first listing could not describe.
package recovery
