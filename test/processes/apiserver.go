package processes

import (
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
	"testing"
	"time"
)

// Admin is the token of a user who may do everything.
const Admin = "admin"

// readyWithin is how long an API server may take to start, also on a busy machine.
const readyWithin = 3 * time.Minute

// APIServer is a kube-apiserver with an etcd of its own.
type APIServer struct {
	// Address is host:port, Dir is where apiserver.crt is, its certificate.
	Address, Dir string
	// Process is the server's, until it is started again.
	Process *Process

	program string
	args    []string
	admin   *http.Client
}

// StartAPIServer starts both and waits until the server is ready. Tokens are lines of a
// token file besides Admin's; args come after those that all have.
func StartAPIServer(t *testing.T, tokens string, args ...string) *APIServer {
	t.Helper()
	dir := t.TempDir()
	etcd, peer, address := FreeAddress(t), FreeAddress(t), FreeAddress(t)
	Start(t, "etcd", Build(t, "go.etcd.io/etcd/server/v3"), "--data-dir", filepath.Join(dir, "etcd"), "--unsafe-no-fsync", "--log-level", "warn",
		"--listen-client-urls", "http://"+etcd, "--advertise-client-urls", "http://"+etcd,
		"--listen-peer-urls", "http://"+peer, "--initial-advertise-peer-urls", "http://"+peer, "--initial-cluster", "default=http://"+peer)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	accounts, file := filepath.Join(dir, "accounts.key"), filepath.Join(dir, "tokens")
	Write(t, accounts, pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
	Write(t, file, []byte(Admin+","+Admin+`,1,"system:masters"`+"\n"+tokens))
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	s := &APIServer{
		Address: address, Dir: dir, program: Build(t, "k8s.io/kubernetes/cmd/kube-apiserver"),
		args: append([]string{
			"--etcd-servers", "http://" + etcd, "--bind-address", host, "--secure-port", port, "--cert-dir", dir, "--endpoint-reconciler-type", "none",
			"--service-account-issuer", "https://kubernetes.default.svc", "--service-account-signing-key-file", accounts,
			"--service-account-key-file", accounts, "--service-cluster-ip-range", "10.0.0.0/24", "--token-auth-file", file,
			"--disable-admission-plugins", "ServiceAccount", // no controller makes accounts
		}, args...),
		admin: &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxConnsPerHost: 8}},
	}
	s.Start(t)
	return s
}

// Start starts the server, again if it has ended, and waits until it says that it is ready.
func (s *APIServer) Start(t *testing.T) {
	t.Helper()
	s.Process = Start(t, "kube-apiserver", s.program, s.args...)
	Eventually(t, readyWithin, "the API server is ready", func(ctx context.Context) error {
		_, err := s.Do(ctx, http.MethodGet, "/readyz", "", "")
		return err
	})
}

// Do makes a request as Admin. An answer that is no success is an error.
func (s *APIServer) Do(ctx context.Context, method, path, kind, body string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, "https://"+s.Address+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+Admin)
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

// Build returns the path of a program of test/apiserver's tools; the test runs in a
// directory beside that one, or in it. It is built once, which takes minutes.
func Build(t *testing.T, program string) string {
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
