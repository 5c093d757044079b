// Package apiserver tests cpupool-webhook against a real API server, which runs with
// its etcd as two ordinary processes of this machine: as deploy/webhook installs it,
// with the rights that it has there. No node runs; tests say what nodes advertise. And it
// tests what deploy/rbac.yaml lets a daemon do. TestHighAvailability has three API servers
// and an etcd of three members.
//
// The first run builds kube-apiserver, which takes some minutes. `make test-apiserver`
// runs it.
package apiserver
