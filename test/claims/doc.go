// Package claims tests the publication of devices and the rights of cpupool-dra against a real API server, which runs
// with its etcd as two ordinary processes of this machine. The ResourceSlice controller is the controller of
// k8s.io/dynamic-resource-allocation. No kubelet and no scheduler run, so tests write the features of Nodes and the
// allocations of claims.
//
// The first run builds kube-apiserver, which takes some minutes. `make test-apiserver` runs it.
package claims
