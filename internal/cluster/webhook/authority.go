package webhook

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

const (
	// overlap is the time for which API servers trust an authority in addition to its
	// successor. The kubelet updates the Secret in replicas within two minutes.
	overlap = 20 * time.Minute
	// backdated is the age of a certificate of cert-controller at its creation.
	backdated = time.Hour
)

// overlapping is a manager for cert-controller, which replaces the authority in the webhook
// configurations by a new one. Replicas use certificates of the old authority until the
// kubelet updates their Secret, and API servers would refuse pods until then. So overlapping
// keeps the old authority after the new one for a while.
type overlapping struct{ manager.Manager }

// GetClient implements manager.Manager.
func (m overlapping) GetClient() client.Client {
	return keeper{m.Manager.GetClient(), m.GetAPIReader()}
}

// keeper is a client that keeps earlier authorities.
type keeper struct {
	client.Client
	live client.Reader
}

// Update implements client.Client.
func (k keeper) Update(ctx context.Context, o client.Object, options ...client.UpdateOption) error {
	if configuration, ok := o.(*unstructured.Unstructured); ok {
		is := &unstructured.Unstructured{}
		is.SetGroupVersionKind(configuration.GroupVersionKind())
		if err := k.live.Get(ctx, client.ObjectKeyFromObject(configuration), is); err != nil {
			return fmt.Errorf("read the authority before: %w", err)
		}
		if err := keepAuthorities(configuration, is, time.Now()); err != nil {
			return err
		}
	}
	return k.Client.Update(ctx, o, options...)
}

// keepAuthorities adds to the authority of each webhook its earlier ones.
func keepAuthorities(configuration, before *unstructured.Unstructured, now time.Time) error {
	had := map[any][]byte{}
	earlier, _, err := unstructured.NestedSlice(before.Object, "webhooks")
	if err != nil {
		return err
	}
	for _, w := range earlier {
		if w, ok := w.(map[string]any); ok {
			had[w["name"]] = bundle(w)
		}
	}
	webhooks, _, err := unstructured.NestedSlice(configuration.Object, "webhooks")
	if err != nil {
		return err
	}
	for _, w := range webhooks {
		if w, ok := w.(map[string]any); ok {
			both := authorities(bundle(w), had[w["name"]], now)
			if err := unstructured.SetNestedField(w, base64.StdEncoding.EncodeToString(both), "clientConfig", "caBundle"); err != nil {
				return err
			}
		}
	}
	return unstructured.SetNestedSlice(configuration.Object, webhooks, "webhooks")
}

// bundle returns a webhook's caBundle, or nil if it is missing or invalid.
func bundle(webhook map[string]any) []byte {
	text, _, _ := unstructured.NestedString(webhook, "clientConfig", "caBundle")
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil
	}
	return data
}

// authorities returns an authority in PEM. While it is young, the latest valid authorities of the
// earlier bundle follow it. Their number is limited, in case several are made in a row.
func authorities(authority, before []byte, now time.Time) []byte {
	const earlier = 3
	first, _ := pem.Decode(authority)
	if first == nil {
		return authority
	}
	made, err := x509.ParseCertificate(first.Bytes)
	if err != nil || now.Sub(made.NotBefore) > backdated+overlap {
		return authority
	}
	all, kept := bytes.Clone(authority), 0
	for block, rest := pem.Decode(before); block != nil && kept < earlier; block, rest = pem.Decode(rest) {
		old, err := x509.ParseCertificate(block.Bytes)
		if err != nil || now.After(old.NotAfter) || bytes.Equal(block.Bytes, first.Bytes) {
			continue
		}
		all = append(all, pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})...)
		kept++
	}
	return all
}
