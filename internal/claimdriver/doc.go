// Package claimdriver is the kubelet's plugin for ResourceClaims of CPUs. It registers with the kubelet,
// prepares and ends claims through the daemon's control socket, and publishes the devices of the node.
//
// The driver has no state of its own. The daemon has the claims in its journal, so another instance
// of the driver can continue at any time. A failure of the daemon or of the API server delays a pod
// with claims, and no other pod.
package claimdriver
