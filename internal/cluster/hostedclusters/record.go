package hostedclusters

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cpupoold/cpupoold/internal/cluster/hostedpriority"
)

type record struct {
	cluster *unstructured.Unstructured
	changes map[string]*string
}

// patch returns a merge patch of the annotations. It applies only to the version of the object
// that was read, so that a later change by another client causes a new pass.
func (r record) patch() ([]byte, error) {
	return json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": r.cluster.GetResourceVersion(), "annotations": r.changes,
	}})
}

// writeLimit is the time limit of all writes after a pass. The next pass waits for them, and
// the plan has no clusters that are created in this time.
const writeLimit = 30 * time.Second

// write writes the records, first the clusters whose last write did not fail. A failure does not
// stop the others. Each write wakes another pass. The error joins the errors of all records.
func (f *Follower) write(ctx context.Context, records []record) error {
	ctx, cancel := context.WithTimeout(ctx, writeLimit)
	defer cancel()
	slices.SortStableFunc(records, func(a, b record) int {
		return cmp.Compare(f.failures[a.cluster.GetUID()], f.failures[b.cluster.GetUID()])
	})
	failures := map[types.UID]int{}
	var errs []error
	for i, r := range records {
		if !f.leads.Load() {
			break
		}
		if ctx.Err() != nil {
			errs = append(errs, fmt.Errorf("%d more HostedClusters: %w", len(records)-i, ctx.Err()))
			break
		}
		if err := f.writeOne(ctx, r); err != nil {
			failures[r.cluster.GetUID()] = 1
			errs = append(errs, err)
		}
	}
	f.failures = failures
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

// memory holds chosen sizes that are not recorded yet, by UID of the cluster, so that a failing
// write does not lower a size. Any new value of the annotation takes precedence, even a lower
// one. It comes from another replica, which must give the same classes, or from an
// administrator who resets the size.
type memory map[types.UID]unwritten

// unwritten is a size, and the value of the annotation at that time.
type unwritten struct{ size, annotation string }

// had returns the size of a cluster that is not recorded yet, or "".
func (m memory) had(cluster *unstructured.Unstructured) string {
	if was, ok := m[cluster.GetUID()]; ok && was.annotation == cluster.GetAnnotations()[hostedpriority.SizeKey] {
		return was.size
	}
	return ""
}

// keep notes the choices of all clusters.
func (m memory) keep(clusters []*unstructured.Unstructured, choices []hostedpriority.Choice) {
	found := map[types.UID]bool{}
	for i, c := range clusters {
		found[c.GetUID()] = true
		annotation := c.GetAnnotations()[hostedpriority.SizeKey]
		switch size := choices[i].Size; {
		case choices[i].OptedOut || annotation == size:
			delete(m, c.GetUID())
		case size != "":
			m[c.GetUID()] = unwritten{size, annotation}
		}
	}
	maps.DeleteFunc(m, func(uid types.UID, _ unwritten) bool { return !found[uid] })
}
