// Package disturbance counts what hand-overs of CPUs do to a neighbour that has CPUs of its own, on a machine without containers (build tag
// "guest").
package disturbance
