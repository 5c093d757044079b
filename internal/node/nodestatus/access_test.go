package nodestatus_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
)

// kubeconfig returns a kubeconfig of one server and one user.
func kubeconfig(cluster, user string) string {
	return `apiVersion: v1
kind: Config
current-context: here
contexts:
- {name: elsewhere, context: {cluster: other, user: other}}
- {name: here, context: {cluster: c, user: u}}
clusters:
- {name: other, cluster: {server: "https://other:6443"}}
- {name: c, cluster: {` + cluster + `}}
users:
- {name: other, user: {token: other}}
- {name: u, user: {` + user + `}}
`
}

func TestKubeconfig(t *testing.T) {
	f := newFakeAPI(t)
	file := filepath.Join(f.dir, "kubeconfig")
	ca, err := os.ReadFile(filepath.Join(f.dir, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"files beside it": kubeconfig(`server: "`+f.server.URL+`", certificate-authority: ca.crt`, "tokenFile: token"),
		"data in it":      kubeconfig(`server: "`+f.server.URL+`", certificate-authority-data: `+base64.StdEncoding.EncodeToString(ca), "token: first"),
	} {
		f.write("kubeconfig", text)
		a, err := nodestatus.Kubeconfig(file)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if _, err := nodestatus.Withdraw(t.Context(), nodestatus.Options{Name: "n1", Access: a}, pooled().Names); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	const server, token = `server: "https://api:6443"`, "token: x"
	for text, want := range map[string]string{
		"":   "names no cluster",
		"[]": "kubeconfig",
		kubeconfig(`server: "http://api"`, token):                                    "https://",
		kubeconfig(server+", insecure-skip-tls-verify: true", token):                 "insecure-skip-tls-verify",
		kubeconfig(server+", certificate-authority-data: '!'", token):                "certificate-authority-data",
		kubeconfig(server, "exec: {command: x}"):                                     "exec",
		kubeconfig(server, "auth-provider: {name: x}"):                               "exec",
		kubeconfig(server, "username: x, password: y"):                               "username",
		kubeconfig(server, "client-certificate: x"):                                  "no user with a token",
		strings.Replace(kubeconfig(server, token), "user: u}", "user: v}", 1):        "no user with a token",
		strings.Replace(kubeconfig(server, token), "context: here", "context: x", 1): "names no cluster",
	} {
		f.write("kubeconfig", text)
		if _, err := nodestatus.Kubeconfig(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v; want %s", text, err, want)
		}
	}
	if _, err := nodestatus.Kubeconfig(filepath.Join(f.dir, "none")); err == nil {
		t.Error("missing file: no error")
	}
}

func TestInCluster(t *testing.T) {
	f := newFakeAPI(t)
	if _, err := nodestatus.InCluster("", "443", f.dir); err == nil {
		t.Error("no host: no error")
	}
	if _, err := nodestatus.InCluster("10.0.0.1", "443", filepath.Join(f.dir, "none")); err == nil {
		t.Error("no service account: no error")
	}
	a, err := nodestatus.InCluster("fd00::1", "443", f.dir)
	if err != nil || a.String() == "" {
		t.Errorf("IPv6: %v, %v", a, err)
	}
}

// TestUntrustedServer checks that the client sends no token to a server with an unknown
// certificate authority.
func TestUntrustedServer(t *testing.T) {
	f := newFakeAPI(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	another := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, another, another, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	f.write("ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	_, err = nodestatus.Withdraw(t.Context(), nodestatus.Options{Name: "n1", Access: f.access()}, pooled().Names)
	if _, wrong := errors.AsType[*tls.CertificateVerificationError](err); !wrong || len(f.calls) > 0 {
		t.Errorf("error %v, calls %v; want a certificate error and no calls", err, f.calls)
	}
}

// TestKubeconfigLater checks that a missing or incomplete kubeconfig is used when it is
// complete.
func TestKubeconfigLater(t *testing.T) {
	f := newFakeAPI(t)
	a := nodestatus.KubeconfigLater(filepath.Join(f.dir, "kubeconfig"))
	withdraw := func() error {
		_, err := nodestatus.Withdraw(t.Context(), nodestatus.Options{Name: "n1", Access: a}, pooled().Names)
		return err
	}
	if err := withdraw(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without the file: %v", err)
	}
	f.write("kubeconfig", kubeconfig(`server: "`+f.server.URL+`"`, ""))
	if err := withdraw(); err == nil || !strings.Contains(err.Error(), "has no user with a token") {
		t.Errorf("without a user: %v", err)
	}
	f.write("kubeconfig", kubeconfig(`server: "`+f.server.URL+`", certificate-authority: ca.crt`, "tokenFile: token"))
	if err := withdraw(); err != nil {
		t.Errorf("complete file: %v", err)
	}
}
