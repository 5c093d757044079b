package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/version"
)

// program is a running cpupool-webhook.
type program struct {
	pid             int
	reviews, probes string // addresses
}

// buildDir is the folder of the program.
var buildDir string

func TestMain(m *testing.M) {
	var err error
	if buildDir, err = os.MkdirTemp("", "webhook-"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(buildDir)
	os.Exit(code)
}

// build builds the program once, without the race detector, which takes additional memory.
var build = sync.OnceValues(func() (string, error) {
	file := filepath.Join(buildDir, "cpupool-webhook")
	c := exec.Command("go", "build", "-o", file, ".")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return file, nil
})

// startWebhook starts the program with the flags and the configuration of its Deployment, a
// certificate, and an API server.
func startWebhook(t *testing.T) *program {
	t.Helper()
	file, err := build()
	if err != nil {
		t.Fatal(err)
	}
	dir, api := t.TempDir(), httptest.NewServer(http.HandlerFunc(serveAPI))
	t.Cleanup(api.Close)
	w := &program{reviews: freeAddress(t), probes: freeAddress(t)}
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	certificate, key := newCertificate(t)
	write("tls.crt", certificate)
	write("tls.key", key)
	config := write("config.yaml", fmt.Sprintf(`apiVersion: config.cpupoold.io/v1alpha1
kind: CPUPoolWebhookConfiguration
types: {management: "on"}
sharedCPUs: "off"
guaranteedCPUs: "off"
certificates: files
certificateDir: %s
listenAddress: %s
probeAddress: %s
metricsAddress: %s
drainPeriod: 0s
`, dir, w.reviews, w.probes, freeAddress(t)))
	kubeconfig := write("kubeconfig", fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: "%s"}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
current-context: a
users: [{name: a, user: {}}]
`, api.URL))
	c := exec.Command(file, "--config="+config, "--namespace=cpupool-webhook", "--kubeconfig="+kubeconfig)
	var log strings.Builder
	c.Stderr = &log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		if t.Failed() {
			text := log.String()
			t.Logf("log, %d bytes: %s", len(text), text[:min(len(text), 4000)])
		}
	})
	w.pid = c.Process.Pid
	w.probe(t, "/readyz")
	return w
}

// freeAddress returns an address on which no program listens. Clients do not get its port: they
// have other addresses.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.9:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func newCertificate(t *testing.T) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "cpupool-webhook"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}))
}

// serveAPI answers for a cluster without nodes. All its namespaces allow management pods.
func serveAPI(w http.ResponseWriter, r *http.Request) {
	const namespace = `{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata",` +
		`"metadata":{"name":"default","resourceVersion":"1","annotations":{"workload.openshift.io/allowed":"management"}}}`
	kinds := map[string][2]string{
		"nodes": {"v1", "Node"}, "configmaps": {"v1", "ConfigMap"}, "namespaces": {"meta.k8s.io/v1", "PartialObjectMetadata"},
	}
	w.Header().Set("Content-Type", "application/json")
	last := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	kind, list := kinds[last]
	switch {
	case r.URL.Path == "/api":
		_, _ = io.WriteString(w, `{"kind":"APIVersions","versions":["v1"]}`)
	case r.URL.Path == "/version":
		_, _ = io.WriteString(w, `{"major":"1","minor":"37","gitVersion":"v1.37.0"}`)
	case r.URL.Path == "/apis":
		_, _ = io.WriteString(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`)
	case r.URL.Path == "/api/v1":
		_, _ = io.WriteString(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[`+
			`{"name":"nodes","kind":"Node","verbs":["list","watch"]},`+
			`{"name":"namespaces","kind":"Namespace","verbs":["get","list","watch"]},`+
			`{"name":"configmaps","kind":"ConfigMap","namespaced":true,"verbs":["get","list","watch","patch"]}]}`)
	case strings.HasSuffix(r.URL.Path, "/namespaces/default"):
		_, _ = io.WriteString(w, namespace)
	case list && r.URL.Query().Get("watch") != "":
		if r.URL.Query().Get("sendInitialEvents") == "true" {
			if last == "namespaces" {
				_, _ = fmt.Fprintf(w, `{"type":"ADDED","object":%s}`, namespace)
			}
			_, _ = fmt.Fprintf(w, `{"type":"BOOKMARK","object":{"apiVersion":%q,"kind":%q,"metadata":{"resourceVersion":"1",`+
				`"annotations":{"k8s.io/initial-events-end":"true"}}}}`, kind[0], kind[1])
		}
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	case list:
		items := ""
		if last == "namespaces" {
			items = namespace
		}
		_, _ = fmt.Fprintf(w, `{"apiVersion":%q,"kind":%q,"metadata":{"resourceVersion":"1"},"items":[%s]}`, kind[0], kind[1]+"List", items)
	default:
		http.NotFound(w, r)
	}
}

func TestVersion(t *testing.T) {
	var stdout, stderr strings.Builder
	want := fmt.Sprintf("cpupool-webhook %s\n", version.Read())
	if code := execute(t.Context(), &stdout, &stderr, []string{"--version"}); code != 0 || stdout.String() != want {
		t.Errorf("exit code %d, %q; want %q; standard error %q", code, &stdout, want, &stderr)
	}
}
