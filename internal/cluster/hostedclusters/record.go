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

// writeLimit bounds all writes after a pass: the next one waits for them, and what is made
// meanwhile is in no plan.
const writeLimit = 30 * time.Second

// write writes records, each whatever becomes of the others, those that could not be written
// the last time after them. Each of them wakes another pass. The error joins those of all
// that could not be written.
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

// memory has sizes that clusters were found to have, by UID, until one is written: what
// cannot be written is not lowered either. Whoever writes one, be it less, has the last word:
// another replica, of which all are to give the same classes, or somebody who wants it
// counted anew.
type memory map[types.UID]unwritten

// unwritten is a size, and the annotation that was there instead.
type unwritten struct{ size, annotation string }

// had is what is not written of a cluster's size.
func (m memory) had(cluster *unstructured.Unstructured) string {
	if was, ok := m[cluster.GetUID()]; ok && was.annotation == cluster.GetAnnotations()[hostedpriority.SizeKey] {
		return was.size
	}
	return ""
}

// keep takes what was chosen for all clusters there are.
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
