// Package slices publishes the CPUs for ResourceClaims of a node as ResourceSlices. It turns the answers of
// the daemon to GET /v1/claims into devices. It decides how the cluster counts the CPUs of claims
// ([Accounting]), because this depends on feature gates of the API server and of the kubelet.
//
// A [Publisher] follows the daemon, and asks the API server and the Node. The package holds no state
// that outlives the process.
package slices
