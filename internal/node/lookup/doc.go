// Package lookup asks the runtime and systemd for pods, containers and units. It
// finds their cgroups, and reads whether processes run in them. Its functions run in
// workers, and have no state. An answer carries the clock of the inventory at the
// time of the question (AsOf), so that it never replaces a newer one.
package lookup
