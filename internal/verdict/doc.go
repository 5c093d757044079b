// Package verdict states in one sentence why a container or a systemd unit has its CPUs, and
// what to change for other CPUs. The planner decides, and this package only has the words:
// `explain` on the node, `explain` and `simulate` of the plugin, and `lint` use the same.
//
// [Of] takes the placement, its problems, and the facts that are known about the pod. The
// daemon knows fewer facts than the API server, and then the sentence is less specific. Pure.
package verdict
