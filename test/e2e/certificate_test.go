//go:build e2e

package e2e_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// certificates is the Secret with the webhook's certificate and its authority.
const certificates = "cpupool-webhook-tls"

// renew checks that a certificate that ends soon is replaced under the same authority, and that no pod is
// refused in that time.
func renew(t *testing.T, c *cluster) {
	authority := c.authority(t)
	stop := c.keepMaking(t, "while certificates are replaced")
	defer stop()
	ending := c.putEnding(t)
	c.showOther(t, ending)
	stop()
	if c.authority(t) != authority {
		t.Error("the authority changed; want the same one")
	}
}

// showOther waits until the webhook has another certificate than this one, and all replicas show it.
func (c *cluster) showOther(t *testing.T, before []byte) {
	t.Helper()
	var now []byte
	eventually(t, "there is another certificate", func(ctx context.Context) error {
		secret, err := c.CoreV1().Secrets(webhookNamespace).Get(ctx, certificates, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if now = secret.Data[corev1.TLSCertKey]; len(now) == 0 || bytes.Equal(now, before) {
			return fmt.Errorf("it is %q", now)
		}
		return nil
	})
	eventually(t, "all replicas show it", func(ctx context.Context) error { return c.showCertificate(ctx, now) })
}

// keepMaking creates pods in dry runs, one after the other, until the caller calls stop. The test fails if the API server refuses one of them, or
// creates it without the change of the webhook, or if no pod was made. An emulated webhook on a busy host can miss the API server's timeout of 5 s.
// One request in 100 may be late, or one request in all if at least 20 pods were made.
func (c *cluster) keepMaking(t *testing.T, during string) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var making sync.WaitGroup
	made, late, next := 0, 0, time.NewTicker(100*time.Millisecond) // leaves CPU time to the nodes
	making.Go(func() {
		defer next.Stop()
		for ctx.Err() == nil {
			pod, err := c.dryRun(ctx, "apps", nil, "100m")
			if err == nil && milli(pod, shared) != 100 {
				err = fmt.Errorf("it requests %v", pod.Spec.Containers[0].Resources.Requests)
			}
			switch {
			case err == nil:
				made++
			case ctx.Err() != nil:
			case strings.Contains(err.Error(), "context deadline exceeded"):
				late++
			default:
				t.Errorf("pod %d, %s: %v", made+late, during, err)
				return
			}
			select {
			case <-next.C:
			case <-ctx.Done():
			}
		}
	})
	return sync.OnceFunc(func() {
		cancel()
		making.Wait()
		t.Logf("%d pods were made; the webhook was late for %d more", made, late)
		tooLate := late*100 > made+late && (late > 1 || made < 20)
		if made == 0 || tooLate {
			t.Errorf("%s, %d pods were made and the webhook was late for %d more; want at most one late request in 100", during, made, late)
		}
	})
}

// putEnding puts a certificate into the Secret that its authority has made for another hour, as after the time of the one that is there, and
// returns it.
func (c *cluster) putEnding(t *testing.T) []byte {
	t.Helper()
	secrets := c.CoreV1().Secrets(webhookNamespace)
	secret, err := secrets.Get(t.Context(), certificates, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	authority, err := tls.X509KeyPair(secret.Data["ca.crt"], secret.Data["ca.key"])
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(7), DNSNames: []string{"cpupool-webhook.cpupool-webhook.svc"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, authority.Leaf, key.Public(), authority.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
	secret.Data[corev1.TLSCertKey] = text
	secret.Data[corev1.TLSPrivateKeyKey] = pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private})
	if _, err := secrets.Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	return text
}

// showCertificate returns an error that names the replica of the webhook that does not
// show this certificate.
func (c *cluster) showCertificate(ctx context.Context, text []byte) error {
	want, _ := pem.Decode(text)
	if want == nil {
		return fmt.Errorf("the Secret has the certificate %q", text)
	}
	pods, err := c.CoreV1().Pods(webhookNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range pods.Items {
		shown, err := c.certificate(ctx, &pods.Items[i])
		if err != nil {
			return err
		}
		if !bytes.Equal(shown.Raw, want.Bytes) {
			return fmt.Errorf("pod %s shows the one that ends at %s", pods.Items[i].Name, shown.NotAfter)
		}
	}
	return nil
}

// certificate returns the certificate that a replica of the webhook shows.
func (c *cluster) certificate(ctx context.Context, pod *corev1.Pod) (*x509.Certificate, error) {
	conn, err := dial(ctx, c.machines, pod.Status.PodIP+":9443")
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	client := tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the test compares it
	if err := client.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return client.ConnectionState().PeerCertificates[0], nil
}

// rotate makes another authority, and checks that no pod is refused while replicas have certificates of the
// earlier one.
func rotate(t *testing.T, c *cluster) {
	before := c.authority(t)
	secret, err := c.CoreV1().Secrets(webhookNamespace).Get(t.Context(), certificates, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stop := c.keepMaking(t, "while certificates are replaced")
	defer stop()
	old := secret.Data[corev1.TLSCertKey]
	secret.Data = nil
	if _, err := c.CoreV1().Secrets(webhookNamespace).Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.showOther(t, old)
	stop()
	if c.authority(t) == before {
		t.Error("the authority is the same; want another one")
	}
}

// authority returns the authority by which the API server trusts the webhook.
func (c *cluster) authority(t *testing.T) string {
	t.Helper()
	w, err := c.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), "cpupool-webhook", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return string(w.Webhooks[0].ClientConfig.CABundle)
}
