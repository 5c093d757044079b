// Package apiserver tests cpupool-webhook against a real API server, which runs with its
// etcd as two ordinary processes of this machine. The webhook is installed as
// deploy/webhook installs it, with its rights there. No node runs, so tests write the
// resources of nodes. The package also tests the rights that deploy/rbac.yaml gives a
// daemon. TestHighAvailability has three API servers and an etcd of three members.
//
// The first run builds kube-apiserver, which takes some minutes. `make test-apiserver`
// runs it.
package apiserver
