//go:build fleet

package fleet_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait. It is only used up by what fails.
const patience = 3 * time.Minute

// audit writes down each request of daemons, and nothing else.
const audit = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  users: [` + daemons + `]
- level: None
`

// daemons is the user that all of them are, as in a cluster: one account for all
// nodes, and one flow of API priority and fairness.
const daemons = "system:serviceaccount:cpupoold:cpupoold"

// apiServer is a kube-apiserver with an etcd of its own, which can be ended and started.
type apiServer struct {
	address string // host:port
	dir     string // of its files; apiserver.crt is its certificate
	args    []string
	program string
	process *process
	admin   *http.Client
}

// startServer starts both processes. The tokens are a line for each node.
func startServer(t *testing.T, tokens []string) *apiServer {
	t.Helper()
	dir := t.TempDir()
	etcd, peer, address := freeAddress(t), freeAddress(t), freeAddress(t)
	start(t, "etcd", build(t, "go.etcd.io/etcd/server/v3"), "--data-dir", filepath.Join(dir, "etcd"), "--unsafe-no-fsync", "--log-level", "warn",
		"--listen-client-urls", "http://"+etcd, "--advertise-client-urls", "http://"+etcd,
		"--listen-peer-urls", "http://"+peer, "--initial-advertise-peer-urls", "http://"+peer, "--initial-cluster", "default=http://"+peer)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "accounts.key"), string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})))
	write(t, filepath.Join(dir, "tokens"), "admin,admin,1,system:masters\n"+strings.Join(tokens, ""))
	write(t, filepath.Join(dir, "policy.yaml"), audit)
	host, port, _ := net.SplitHostPort(address)
	s := &apiServer{
		address: address, dir: dir, program: build(t, "k8s.io/kubernetes/cmd/kube-apiserver"),
		args: []string{
			"--etcd-servers", "http://" + etcd, "--bind-address", host, "--secure-port", port, "--cert-dir", dir, "--endpoint-reconciler-type", "none",
			"--service-account-issuer", "https://kubernetes.default.svc", "--service-account-signing-key-file", filepath.Join(dir, "accounts.key"),
			"--service-account-key-file", filepath.Join(dir, "accounts.key"), "--service-cluster-ip-range", "10.0.0.0/24",
			"--token-auth-file", filepath.Join(dir, "tokens"), "--authorization-mode", "RBAC", "--disable-admission-plugins", "ServiceAccount",
			"--audit-policy-file", filepath.Join(dir, "policy.yaml"), "--audit-log-path", filepath.Join(dir, "audit.log"),
		},
		admin: &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxConnsPerHost: 8}},
	}
	s.start(t)
	return s
}

// start starts the API server, and waits until it answers that it is ready.
func (s *apiServer) start(t *testing.T) {
	t.Helper()
	s.process = start(t, "kube-apiserver", s.program, s.args...)
	eventually(t, "the API server is ready", func() error {
		_, err := s.do("GET", "/readyz", "", "")
		return err
	})
}

// do makes a request as administrator.
func (s *apiServer) do(method, path, kind, body string) ([]byte, error) {
	request, err := http.NewRequest(method, "https://"+s.address+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer admin")
	request.Header.Set("Content-Type", kind)
	answer, err := s.admin.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, answer.Status, data)
	}
	return data, err
}

// build returns the path of a program of test/apiserver's tools.
func build(t *testing.T, program string) string {
	t.Helper()
	cache := os.Getenv("CPUPOOLD_CACHE")
	if cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		cache = filepath.Join(user, "cpupoold")
	}
	out := filepath.Join(cache, "apiserver", filepath.Base(filepath.Dir(program))+"-"+filepath.Base(program))
	cmd := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-s -w", "-o", out, program)
	cmd.Dir = "../apiserver"
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=readonly -trimpath -buildvcs=false", "CGO_ENABLED=0", "GOWORK=off")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v: %s", program, err, text)
	}
	return out
}

// process is one that the test ends.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// start runs a program. What it prints is shown when the test fails.
func start(t *testing.T, name, program string, args ...string) *process {
	t.Helper()
	var log bytes.Buffer
	p := &process{exec.Command(program, args...), make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &log, &log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // its log says why
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // may have ended
		<-p.done
		if text := log.Bytes(); t.Failed() {
			t.Logf("log of %s:\n%s", name, text[max(0, len(text)-4000):])
		}
	})
	return p
}

// end ends a program at once, as a machine that loses power does.
func (p *process) end() {
	_ = p.cmd.Process.Kill() // may have ended
	<-p.done
}

// freeAddress is one of this machine that nobody has at the moment.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// eventually asks until there is no error.
func eventually(t *testing.T, what string, ask func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	again := time.NewTicker(250 * time.Millisecond)
	defer again.Stop()
	for {
		err := ask()
		if err == nil {
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		}
	}
}
