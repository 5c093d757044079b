package processes

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
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Admin is the token of a user with every right.
const Admin = "admin"

// readyWithin is the start timeout of an API server, also on a busy machine.
const readyWithin = 3 * time.Minute

// APIServer is a kube-apiserver with an etcd, or with one member of an etcd.
type APIServer struct {
	// Address is host:port, Dir is the folder of apiserver.crt, its certificate.
	Address, Dir string
	// Process runs the server, Etcd runs the etcd. Start and StartEtcd replace them.
	Process, Etcd *Process
	// Args follow the arguments of all servers at the next Start.
	Args []string

	program, etcd  string
	args, etcdArgs []string
	admin          *http.Client
}

// StartAPIServer starts an API server with its etcd, and waits until the server is ready.
// tokens are lines of a token file, in addition to the line of Admin. args follow the
// arguments of all servers.
func StartAPIServer(t *testing.T, tokens string, args ...string) *APIServer {
	t.Helper()
	return StartAPIServers(t, 1, tokens, args...)[0]
}

// StartAPIServers starts n API servers of one cluster. Each of them uses its own member of
// the etcd only, as on control planes of kubeadm. See StartAPIServer.
func StartAPIServers(t *testing.T, n int, tokens string, args ...string) []*APIServer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	common := t.TempDir()
	accounts, file := filepath.Join(common, "accounts.key"), filepath.Join(common, "tokens")
	Write(t, accounts, pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
	Write(t, file, []byte(Admin+","+Admin+`,1,"system:masters"`+"\n"+tokens))
	peers, members := make([]string, n), make([]string, n)
	for i := range n {
		peers[i] = "http://" + FreeAddress(t)
		members[i] = fmt.Sprintf("etcd-%d=%s", i, peers[i])
	}
	program, member := Build(t, "k8s.io/kubernetes/cmd/kube-apiserver"), Build(t, "go.etcd.io/etcd/server/v3")
	servers := make([]*APIServer, n)
	for i := range n {
		dir, etcd, address := t.TempDir(), "http://"+FreeAddress(t), FreeAddress(t)
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			t.Fatal(err)
		}
		servers[i] = &APIServer{
			Address: address, Dir: dir, program: program, etcd: member,
			// A busy machine needs longer times than etcd's own.
			etcdArgs: []string{
				"--name", fmt.Sprintf("etcd-%d", i), "--data-dir", filepath.Join(dir, "etcd"), "--unsafe-no-fsync", "--log-level", "warn",
				"--heartbeat-interval", "300", "--election-timeout", "3000",
				"--listen-client-urls", etcd, "--advertise-client-urls", etcd,
				"--listen-peer-urls", peers[i], "--initial-advertise-peer-urls", peers[i], "--initial-cluster", strings.Join(members, ","),
			},
			args: []string{
				"--etcd-servers", etcd, "--bind-address", host, "--secure-port", port, "--cert-dir", dir, "--endpoint-reconciler-type", "none",
				"--service-account-issuer", "https://kubernetes.default.svc", "--service-account-signing-key-file", accounts,
				"--service-account-key-file", accounts, "--service-cluster-ip-range", "10.0.0.0/24", "--token-auth-file", file,
				"--disable-admission-plugins", "ServiceAccount", // no controller makes accounts
			},
			Args:  args,
			admin: &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxConnsPerHost: 8}},
		}
		servers[i].StartEtcd(t)
	}
	for _, s := range servers {
		s.Start(t)
	}
	return servers
}

// StartEtcd starts the etcd of the server, again if it has ended. It does not wait until
// the etcd serves.
func (s *APIServer) StartEtcd(t *testing.T) {
	t.Helper()
	s.Etcd = Start(t, "etcd", s.etcd, s.etcdArgs...)
}

// Start starts the server, again if it has ended, and waits until it is ready.
func (s *APIServer) Start(t *testing.T) {
	t.Helper()
	s.Process = Start(t, "kube-apiserver", s.program, slices.Concat(s.args, s.Args)...)
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

// builds holds a function for each program, which compiles it and returns its path.
var builds sync.Map

// Build returns the path of a program of test/apiserver's tools. The test runs in that
// directory or in a sibling of it. The first build takes minutes. A test binary builds
// each program once, because go takes seconds to find that a program is up to date.
func Build(t *testing.T, program string) string {
	t.Helper()
	once, _ := builds.LoadOrStore(program, sync.OnceValues(func() (string, error) { return build(t.Context(), program) }))
	path, err := once.(func() (string, error))()
	if err != nil {
		t.Fatalf("build %s: %v", program, err)
	}
	return path
}

func build(ctx context.Context, program string) (string, error) {
	cache := os.Getenv("CPUPOOLD_CACHE")
	if cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		cache = filepath.Join(user, "cpupoold")
	}
	out := filepath.Join(cache, "apiserver", filepath.Base(filepath.Dir(program))+"-"+filepath.Base(program))
	version, err := goCommand(ctx, "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	if err != nil {
		return "", err
	}
	// The sources have no version of their release, which helm compares with the chart's.
	const stamp = " -X k8s.io/component-base/version."
	minor := strings.Split(version, ".")[1]
	flags := "-s -w" + stamp + "gitVersion=" + version + stamp + "gitMajor=1" + stamp + "gitMinor=" + minor
	_, err = goCommand(ctx, "build", "-ldflags", flags, "-o", out, program)
	return out, err
}

// goCommand runs a go command in the module test/apiserver, and returns its output without
// the newline at the end.
func goCommand(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = "../apiserver"
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=readonly -trimpath -buildvcs=false", "CGO_ENABLED=0", "GOWORK=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, &stderr)
	}
	return strings.TrimSpace(string(out)), nil
}
