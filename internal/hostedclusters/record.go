package hostedclusters

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cpupoold/cpupoold/internal/hostedpriority"
)

// record is what is to be changed of a HostedCluster's annotations.
type record struct {
	cluster *unstructured.Unstructured
	changes map[string]*string
}

// patch changes the annotations of the object as it was seen: what somebody has changed
// since then is looked at first.
func (r record) patch() ([]byte, error) {
	return json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": r.cluster.GetResourceVersion(), "annotations": r.changes,
	}})
}

// write writes records, each whatever becomes of the others. Each of them wakes another
// pass. The error joins those of all that could not be written.
func (f *Follower) write(ctx context.Context, records []record) error {
	var errs []error
	for _, r := range records {
		if ctx.Err() != nil {
			break
		}
		errs = append(errs, f.writeOne(ctx, r))
	}
	return errors.Join(errs...)
}

func (f *Follower) writeOne(ctx context.Context, r record) error {
	data, err := r.patch()
	if err != nil {
		return fmt.Errorf("encode annotations: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	_, err = f.client.Resource(hostedClusters()).Namespace(r.cluster.GetNamespace()).Patch(
		ctx, r.cluster.GetName(), types.MergePatchType, data, metav1.PatchOptions{FieldManager: "cpupool-webhook"})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // the change wakes the next pass
	}
	if err != nil {
		f.count.records.WithLabelValues(resultFailed).Inc()
		return fmt.Errorf("HostedCluster %s/%s: %w", r.cluster.GetNamespace(), r.cluster.GetName(), err)
	}
	f.count.records.WithLabelValues(resultWritten).Inc()
	f.log.Info("hosted cluster has other priority classes", "namespace", r.cluster.GetNamespace(), "name", r.cluster.GetName(), "annotations", string(data))
	return nil
}

// memory has sizes that clusters were found to have, by UID, until they are written: what
// cannot be written is not lowered either. Whoever removes an annotation that was written
// has the size counted anew.
type memory map[types.UID]string

// had is what is not written of a cluster's size.
func (m memory) had(cluster *unstructured.Unstructured) string { return m[cluster.GetUID()] }

// keep takes what was chosen for all clusters there are.
func (m memory) keep(clusters []*unstructured.Unstructured, choices []hostedpriority.Choice) {
	found := map[types.UID]bool{}
	for i, c := range clusters {
		found[c.GetUID()] = true
		switch size := choices[i].Size; {
		case choices[i].OptedOut || c.GetAnnotations()[hostedpriority.SizeKey] == size:
			delete(m, c.GetUID())
		case size != "":
			m[c.GetUID()] = size
		}
	}
	maps.DeleteFunc(m, func(uid types.UID, _ string) bool { return !found[uid] })
}
