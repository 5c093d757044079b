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
	// overlap is how long API servers trust an authority beside the one that follows it.
	// The kubelet brings replicas a changed Secret within two minutes.
	overlap = 20 * time.Minute
	// backdated is how old a certificate of cert-controller is when it is made.
	backdated = time.Hour
)

// overlapping is a manager for cert-controller, which writes an authority that it has
// just made into the webhook configurations in place of the one before. Replicas go on
// showing certificates of that one until the kubelet brings them others, and API
// servers would refuse pods until then. So it stays for a while behind the new one.
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

// keepAuthorities adds to each webhook's authority the one that the webhook has had.
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

// bundle is a webhook's caBundle, empty when there is none that could be read.
func bundle(webhook map[string]any) []byte {
	text, _, _ := unstructured.NestedString(webhook, "clientConfig", "caBundle")
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil
	}
	return data
}

// authorities returns an authority, in PEM, and while it is young those of the bundle
// before that have not ended: the latest few, should somebody make several in a row.
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
