package hostedclusters

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
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

// write writes records until one fails. Each of them wakes another pass.
func (f *Follower) write(ctx context.Context, records []record) error {
	for _, r := range records {
		data, err := r.patch()
		if err != nil {
			return fmt.Errorf("encode annotations: %w", err)
		}
		ctx, cancel := context.WithTimeout(ctx, requestLimit)
		_, err = f.client.Resource(hostedClusters()).Namespace(r.cluster.GetNamespace()).Patch(
			ctx, r.cluster.GetName(), types.MergePatchType, data, metav1.PatchOptions{FieldManager: "cpupool-webhook"})
		cancel()
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			continue // the change wakes the next pass
		}
		if err != nil {
			f.count.records.WithLabelValues(resultFailed).Inc()
			return fmt.Errorf("HostedCluster %s/%s: %w", r.cluster.GetNamespace(), r.cluster.GetName(), err)
		}
		f.count.records.WithLabelValues(resultWritten).Inc()
		f.log.Info("hosted cluster has other priority classes", "namespace", r.cluster.GetNamespace(), "name", r.cluster.GetName(), "annotations", string(data))
	}
	return nil
}
