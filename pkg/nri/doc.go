// Package nri is the daemon's plugin for the node resource interface of container
// runtimes (github.com/containerd/nri). The runtime calls it for each container
// before the container exists, so that the container never runs outside its pool.
package nri
