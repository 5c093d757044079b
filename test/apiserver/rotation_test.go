//go:build apiserver

package apiserver_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestRotation renews certificates while pods are created: the server's own, and then
// the authority's. A certificate that is about to expire replaces the passing of time.
func TestRotation(t *testing.T) {
	s, first := startWebhook(t)
	c := s.client(t, admin)
	secret := func() *corev1.Secret {
		found, err := c.CoreV1().Secrets(installed).Get(t.Context(), "cpupool-webhook-tls", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return found
	}

	t.Run("the server's", func(t *testing.T) {
		stop := keepAsking(t, s)
		before := secret()
		expiring(t, before)
		if _, err := c.CoreV1().Secrets(installed).Update(t.Context(), before, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		renewed(t, s, first, before)
		if now := secret(); !bytes.Equal(now.Data["ca.crt"], before.Data["ca.crt"]) {
			t.Error("the authority changed; want the same one")
		}
		stop()
	})

	for name, replace := range map[string]func(*corev1.Secret){
		"authority": func(is *corev1.Secret) {
			is.Data["ca.crt"], is.Data["ca.key"] = authority(t, time.Now().Add(time.Hour))
		},
		"all-by-hand": func(is *corev1.Secret) { is.Data = nil },
	} {
		t.Run(name, func(t *testing.T) {
			stop := keepAsking(t, s)
			before := secret()
			changed := before.DeepCopy()
			replace(changed)
			if _, err := c.CoreV1().Secrets(installed).Update(t.Context(), changed, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			knowAuthority(t, s, before.Data["ca.crt"])
			// The kubelet takes its time: until then the replica shows the old certificate.
			awaitConfigurations(t, s, name)
			renewed(t, s, first, changed)
			stop()
		})
	}
}

// knowAuthority waits until API servers have a configuration with another authority
// than before, and checks that they trust the earlier one, too.
func knowAuthority(t *testing.T, s *apiServer, before []byte) {
	t.Helper()
	eventually(t, "API servers get the new authority", func(ctx context.Context) error {
		secret, err := s.client(t, admin).CoreV1().Secrets(installed).Get(ctx, "cpupool-webhook-tls", metav1.GetOptions{})
		if err != nil {
			return err
		}
		configuration, err := s.client(t, admin).AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, installed, metav1.GetOptions{})
		if err != nil {
			return err
		}
		now := secret.Data["ca.crt"]
		for _, w := range configuration.Webhooks {
			if len(now) == 0 || bytes.Equal(now, before) || !bytes.HasPrefix(w.ClientConfig.CABundle, now) {
				return errorf("webhook %s has another one", w.Name)
			}
			if !bytes.Contains(w.ClientConfig.CABundle, before) {
				t.Errorf("webhook %s lost the previous authority; want both", w.Name)
			}
		}
		return nil
	})
}

// awaitConfigurations waits until the API server knows all changes of webhook
// configurations. It receives them in order. So the function adds one more webhook,
// which never answers for pods with a label, and waits for its effect.
func awaitConfigurations(t *testing.T, s *apiServer, label string) {
	t.Helper()
	url, none := "https://127.0.0.1:1/", admissionregistrationv1.SideEffectClassNone
	configurations := s.client(t, admin).AdmissionregistrationV1().MutatingWebhookConfigurations()
	if _, err := configurations.Create(t.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: label},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "nobody.example.com", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
			ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"heard": label}},
			SideEffects:    &none, AdmissionReviewVersions: []string{"v1"},
		}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the API server knows the change", func(ctx context.Context) error {
		pod := newPod("x", nil, "")
		pod.Labels = map[string]string{"heard": label}
		_, err := s.client(t, alice).CoreV1().Pods("apps").Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil || !strings.Contains(err.Error(), "nobody.example.com") {
			return errorf("answer %w", err)
		}
		return nil
	})
}

// keepAsking makes pods until the function that it returns is called, at least one and
// the last one afterwards. None of them may be refused.
func keepAsking(t *testing.T, s *apiServer) (stop func()) {
	pods, enough, done := s.client(t, alice).CoreV1().Pods("apps"), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for last := false; !last; {
			select {
			case <-enough:
				last = true
			default:
			}
			_, err := pods.Create(t.Context(), newPod("x", nil, "cpu=1"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if err != nil && t.Context().Err() == nil {
				t.Errorf("a pod, while the certificate is renewed: %v", err)
			}
			last = last || err != nil
		}
	}()
	stop = sync.OnceFunc(func() {
		close(enough)
		<-done
	})
	t.Cleanup(stop)
	return stop
}

// renewed waits until the Secret has a new certificate, brings it to the replica, and
// waits until the replica shows it.
func renewed(t *testing.T, s *apiServer, r *replica, before *corev1.Secret) {
	t.Helper()
	var now *corev1.Secret
	eventually(t, "the certificate is renewed", func(ctx context.Context) (err error) {
		now, err = s.client(t, admin).CoreV1().Secrets(installed).Get(ctx, before.Name, metav1.GetOptions{})
		if err == nil && bytes.Equal(now.Data["tls.crt"], before.Data["tls.crt"]) {
			err = errorf("it is as it was")
		}
		return err
	})
	bring(t, r.dir, now)
	shows(t, r, now)
}

// shows waits until a replica serves the certificate of the Secret.
func shows(t *testing.T, r *replica, secret *corev1.Secret) {
	t.Helper()
	want, _ := pem.Decode(secret.Data["tls.crt"])
	if want == nil {
		t.Fatalf("tls.crt = %q; want a certificate", secret.Data["tls.crt"])
	}
	eventually(t, "the replica shows it", func(ctx context.Context) error {
		dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
		conn, err := dialer.DialContext(ctx, "tcp", r.address)
		if err != nil {
			return err
		}
		defer conn.Close()
		if shown := conn.(*tls.Conn).ConnectionState().PeerCertificates[0]; !bytes.Equal(shown.Raw, want.Bytes) {
			return errorf("it shows the one that is valid until %s", shown.NotAfter)
		}
		return nil
	})
}

// expiring puts a certificate into the Secret, made by its authority, that is valid for
// another hour.
func expiring(t *testing.T, secret *corev1.Secret) {
	t.Helper()
	pair, err := tls.X509KeyPair(secret.Data["ca.crt"], secret.Data["ca.key"])
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	name := installed + "." + installed + ".svc"
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, pair.Leaf, key.Public(), pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	secret.Data["tls.crt"], secret.Data["tls.key"] = inPEM(t, der, key)
}

// authority makes one that is valid until then.
func authority(t *testing.T, until time.Time) (certificate, private []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(8), Subject: pkix.Name{CommonName: "old"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: until, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return inPEM(t, der, key)
}

func inPEM(t *testing.T, der []byte, key *ecdsa.PrivateKey) (certificate, private []byte) {
	t.Helper()
	raw, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw})
}
