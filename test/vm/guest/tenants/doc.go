// Package tenants runs pods that attack the daemon, and pods with exclusive CPUs at the same time, on a real node. It runs in the guest (build tag
// "guest") with a real kubelet and a real runtime. docs/reference/boundaries.md names the boundaries that the attacks are against.
package tenants
