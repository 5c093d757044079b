// Package nri is the daemon's plugin for the node resource interface of container
// runtimes (github.com/containerd/nri): the runtime asks it about each container
// before the container exists, so that it never runs outside its pool.
package nri
