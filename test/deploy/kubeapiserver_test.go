//go:build apiserver

package deploy

import (
	"testing"

	"k8s.io/client-go/rest"

	"github.com/cpupoold/cpupoold/test/processes"
)

// startCluster returns the way to kube-apiserver, which runs with an etcd and without
// controllers.
func startCluster(t *testing.T) *rest.Config {
	t.Helper()
	server := processes.StartAPIServer(t, "", "--authorization-mode", "RBAC", "--allow-privileged")
	return &rest.Config{Host: "https://" + server.Address, BearerToken: processes.Admin, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
}
