// Package lookup asks the runtime and systemd for pods, containers and units. It
// finds their cgroups, and reads whether processes run in them. List and the Fetch
// functions run in workers, and have no state. Answers about pods and containers
// carry the clock of the inventory at the time of the question (AsOf). So an old
// answer does not replace a newer one.
package lookup
