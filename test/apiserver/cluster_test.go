//go:build apiserver

package apiserver_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/cpupoold/cpupoold/test/processes"
)

// Users of the API server; the token is the name.
const (
	admin = processes.Admin
	alice = "alice" // may make and change pods everywhere
	node  = "system:node:n1"
)

const tokens = `alice,alice,2
system:node:n1,system:node:n1,3,"system:nodes"
`

// waitTimeout bounds every wait. Only a failure uses it up.
const waitTimeout = 2 * time.Minute

// An apiServer is a running API server with its own etcd.
type apiServer struct{ address string }

// config is the way to the server for a user.
func (s *apiServer) config(token string) *rest.Config {
	return &rest.Config{Host: "https://" + s.address, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: 1000, Burst: 1000}
}

func (s *apiServer) client(t *testing.T, token string) *kubernetes.Clientset {
	t.Helper()
	c, err := kubernetes.NewForConfig(s.config(token))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// startAPIServer starts an API server that accepts nodes as tests create them. It calls
// webhooks by the endpoints of their services, because no kube-proxy runs.
func startAPIServer(t *testing.T) *apiServer {
	t.Helper()
	return &apiServer{address: processes.StartAPIServer(t, tokens, serverArgs()...).Address}
}

// serverArgs returns the arguments of API servers, see startAPIServer.
func serverArgs() []string {
	return []string{"--authorization-mode", "Node,RBAC", "--enable-admission-plugins", "NodeRestriction", "--enable-aggregator-routing"}
}

// A process is one that the test ends.
type process struct{ *processes.Process }

func start(t *testing.T, name, program string, args ...string) *process {
	t.Helper()
	return &process{processes.Start(t, name, program, args...)}
}

// end signals the program to end and waits for it.
func (p *process) end(t *testing.T) {
	t.Helper()
	p.End(t, waitTimeout)
}

// freePort returns an unused port.
func freePort(t *testing.T) string {
	t.Helper()
	_, port, err := net.SplitHostPort(processes.FreeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func write(t *testing.T, file string, data []byte) {
	t.Helper()
	processes.Write(t, file, data)
}

// eventually asks until there is no error.
func eventually(t *testing.T, what string, ask func(context.Context) error) {
	t.Helper()
	processes.Eventually(t, waitTimeout, what, ask)
}

// errorf is an error for eventually.
func errorf(format string, args ...any) error { return fmt.Errorf(format, args...) }
