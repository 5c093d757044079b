// Package idle measures what the daemon does while no container changes, on a real node with two containers. It runs in the guest (build tag
// "guest") with a real kubelet and a real runtime. docs/explanation/cost.md has the figures.
package idle
