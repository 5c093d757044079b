package webhook

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// authority is one that is valid from then until the end.
func authority(t *testing.T, from, until time.Time) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: until, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestAuthorities(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	end := now.Add(24 * time.Hour)
	// As cert-controller makes them: an hour old.
	young, old, other := authority(t, now.Add(-time.Hour), end), authority(t, now.Add(-24*time.Hour), end), authority(t, now.Add(-24*time.Hour), end)
	ended := authority(t, now.Add(-24*time.Hour), now.Add(-time.Second))
	for name, c := range map[string]struct {
		authority, before, want []byte
		later                   time.Duration
	}{
		"the first":         {authority: young, want: young},
		"another":           {authority: young, before: old, want: slices.Concat(young, old)},
		"once more":         {authority: young, before: slices.Concat(young, old), want: slices.Concat(young, old)},
		"in time":           {authority: young, before: slices.Concat(young, old), later: 20 * time.Minute, want: slices.Concat(young, old)},
		"long after":        {authority: young, before: slices.Concat(young, old), later: 21 * time.Minute, want: young},
		"as it was":         {authority: old, before: old, want: old},
		"one that is older": {authority: old, before: other, want: old},
		"two before":        {authority: young, before: slices.Concat(old, other), want: slices.Concat(young, old, other)},
		"many before":       {authority: young, before: bytes.Repeat(old, 9), want: slices.Concat(young, old, old, old)},
		"one that has ended": {
			authority: young, before: slices.Concat(ended, old), want: slices.Concat(young, old),
		},
		"no certificate before": {authority: young, before: []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), want: young},
		"no certificate":        {authority: []byte("x"), before: old, want: []byte("x")},
	} {
		if got := authorities(c.authority, c.before, now.Add(c.later)); !bytes.Equal(got, c.want) {
			t.Errorf("%s: authorities are\n%s, want\n%s", name, got, c.want)
		}
	}
}

func TestKeepAuthorities(t *testing.T) {
	now := time.Now()
	young, old := authority(t, now.Add(-time.Hour), now.Add(time.Hour)), authority(t, now.Add(-24*time.Hour), now.Add(time.Hour))
	configuration := func(bundles map[string]any) *unstructured.Unstructured {
		var webhooks []any
		for _, name := range []string{"a", "b", "c"} {
			client := map[string]any{}
			if b, ok := bundles[name].([]byte); ok {
				client["caBundle"] = base64.StdEncoding.EncodeToString(b)
			}
			webhooks = append(webhooks, map[string]any{"name": name, "clientConfig": client})
		}
		return &unstructured.Unstructured{Object: map[string]any{"webhooks": webhooks}}
	}
	got := configuration(map[string]any{"a": young, "b": young, "c": young})
	if err := keepAuthorities(got, configuration(map[string]any{"a": old}), now); err != nil {
		t.Fatal(err)
	}
	webhooks, _, err := unstructured.NestedSlice(got.Object, "webhooks")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][]byte{slices.Concat(young, old), young, young} {
		if has := bundle(webhooks[i].(map[string]any)); !bytes.Equal(has, want) {
			t.Errorf("webhook %d has the authorities\n%s, want\n%s", i, has, want)
		}
	}
	if err := keepAuthorities(&unstructured.Unstructured{Object: map[string]any{"webhooks": "x"}}, got, now); err == nil {
		t.Error("webhooks that are no list are not told of")
	}
}
