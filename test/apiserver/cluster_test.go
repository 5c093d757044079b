//go:build apiserver

package apiserver_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Users of the API server; the token is the name.
const (
	admin = "admin"
	alice = "alice" // may make and change pods everywhere
	node  = "system:node:n1"
)

const tokens = `admin,admin,1,"system:masters"
alice,alice,2
system:node:n1,system:node:n1,3,"system:nodes"
`

// patience bounds every wait. It is only used up by what fails.
const patience = 2 * time.Minute

// An apiServer is one that runs, with an etcd of its own.
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

// startAPIServer starts both processes and waits until the server is ready.
func startAPIServer(t *testing.T) *apiServer {
	t.Helper()
	dir := t.TempDir()
	etcd, peer, port := freePort(t), freePort(t), freePort(t)
	client := "http://127.0.0.1:" + etcd
	start(t, "etcd", build(t, "go.etcd.io/etcd/server/v3"), "--data-dir", filepath.Join(dir, "etcd"), "--unsafe-no-fsync", "--log-level", "warn",
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", "http://127.0.0.1:"+peer, "--initial-advertise-peer-urls", "http://127.0.0.1:"+peer,
		"--initial-cluster", "default=http://127.0.0.1:"+peer)
	write(t, filepath.Join(dir, "tokens"), []byte(tokens))
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	accounts := filepath.Join(dir, "accounts.key")
	write(t, accounts, pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
	start(t, "kube-apiserver", build(t, "k8s.io/kubernetes/cmd/kube-apiserver"), "--etcd-servers", client,
		"--bind-address", "127.0.0.1", "--secure-port", port, "--cert-dir", filepath.Join(dir, "certs"), "--endpoint-reconciler-type", "none",
		"--service-account-issuer", "https://kubernetes.default.svc", "--service-account-signing-key-file", accounts,
		"--service-account-key-file", accounts, "--service-cluster-ip-range", "10.0.0.0/24",
		"--token-auth-file", filepath.Join(dir, "tokens"), "--authorization-mode", "Node,RBAC",
		"--enable-admission-plugins", "NodeRestriction", "--disable-admission-plugins", "ServiceAccount", // no controller makes accounts
		"--enable-aggregator-routing") // to the endpoints of services: there is no kube-proxy
	s := &apiServer{address: "127.0.0.1:" + port}
	c := s.client(t, admin)
	eventually(t, "the API server is ready", func(ctx context.Context) error {
		return c.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
	return s
}

// build returns the path of a program of this module's tools.
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
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=readonly -trimpath -buildvcs=false", "CGO_ENABLED=0", "GOWORK=off")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v: %s", program, err, text)
	}
	return out
}

// A process is one that the test ends.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// start runs a program. What it prints is shown when the test fails.
func start(t *testing.T, name, program string, args ...string) *process {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	p := &process{exec.Command(program, args...), make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
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
		if t.Failed() {
			text, err := os.ReadFile(log.Name())
			t.Logf("log of %s (%v):\n%s", name, err, text[max(0, len(text)-8000):])
		}
		log.Close()
	})
	return p
}

// end tells the program to end and waits for it.
func (p *process) end(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.done:
	case <-time.After(patience):
		t.Fatalf("%s does not end", p.cmd.Path)
	}
}

// freePort returns a port that nobody has at the moment.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

func write(t *testing.T, file string, data []byte) {
	t.Helper()
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// eventually asks until there is no error.
func eventually(t *testing.T, what string, ask func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		err := ask(ctx)
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

// errorf is an error for eventually.
func errorf(format string, args ...any) error { return fmt.Errorf(format, args...) }
