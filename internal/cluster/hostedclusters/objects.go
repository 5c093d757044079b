package hostedclusters

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cpupoold/cpupoold/internal/cluster/hostedpriority"
)

// sizingName is the name of the only ClusterSizingConfiguration that is read.
const sizingName = "cluster"

// hostedClusters and the next functions return the kinds to follow.
func hostedClusters() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "hypershift.openshift.io", Version: "v1beta1", Resource: "hostedclusters"}
}

func nodePools() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "hypershift.openshift.io", Version: "v1beta1", Resource: "nodepools"}
}

func sizings() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "scheduling.hypershift.openshift.io", Version: "v1alpha1", Resource: "clustersizingconfigurations"}
}

func priorityClasses() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "scheduling.k8s.io", Version: "v1", Resource: "priorityclasses"}
}

// slim returns an object with the used fields only. HostedClusters have long statuses that
// change often.
func slim(o any) (any, error) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return o, nil
	}
	s := &unstructured.Unstructured{Object: map[string]any{}}
	annotations := map[string]string{}
	for key, value := range u.GetAnnotations() {
		if strings.HasPrefix(key, "hosted-priority.cpupoold.io/") || strings.HasPrefix(key, "hypershift.openshift.io/") {
			annotations[key] = value
		}
	}
	s.SetAnnotations(annotations)
	for _, path := range append(map[string][][]string{
		"NodePool":                   {{"spec", "clusterName"}, {"spec", "replicas"}, {"spec", "autoScaling"}, {"status", "replicas"}},
		"ClusterSizingConfiguration": {{"spec", "sizes"}},
		"PriorityClass":              {{"value"}},
	}[u.GetKind()], []string{"apiVersion"}, []string{"kind"}, []string{"metadata", "namespace"}, []string{"metadata", "name"},
		[]string{"metadata", "uid"}, []string{"metadata", "resourceVersion"}, []string{"metadata", "deletionTimestamp"}) {
		if value, there, err := unstructured.NestedFieldNoCopy(u.Object, path...); err == nil && there {
			if err := unstructured.SetNestedField(s.Object, value, path...); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

// world holds the input of a pass.
type world struct {
	table    hostedpriority.Table
	classes  hostedpriority.PriorityClasses
	clusters []*unstructured.Unstructured // in the order of their names
	pools    []hostedpriority.NodePool
	problems []hostedpriority.Problem // problems without a cluster
}

// read returns the input of a pass from the objects of the informers. It does not change the
// objects.
func read(config *hostedpriority.Config, objects map[schema.GroupVersionResource][]any) world {
	w := world{classes: hostedpriority.PriorityClasses{}}
	for _, o := range unstructureds(objects[priorityClasses()]) {
		if value, _, err := unstructured.NestedInt64(o.Object, "value"); err == nil { // 0 is omitted
			w.classes[o.GetName()] = value
		}
	}
	for _, o := range unstructureds(objects[nodePools()]) {
		if o.GetDeletionTimestamp() != nil {
			continue
		}
		data, err := json.Marshal(o.Object)
		var pool hostedpriority.NodePool
		if err == nil {
			pool, err = hostedpriority.ParseNodePool(o.GetNamespace(), data)
		}
		if err != nil {
			w.problem(hostedpriority.BadNodePool, "NodePool %s/%s counts for no nodes: %v", o.GetNamespace(), o.GetName(), err)
			continue
		}
		w.pools = append(w.pools, pool)
	}
	w.clusters = unstructureds(objects[hostedClusters()])
	w.table = config.Table()
	if config.SizesFrom == hostedpriority.FromSizing {
		w.sizing(objects[sizings()])
	}
	return w
}

// sizing sets the table from the ClusterSizingConfiguration.
func (w *world) sizing(objects []any) {
	w.table = hostedpriority.Table{}
	for _, o := range unstructureds(objects) {
		if o.GetName() != sizingName {
			continue
		}
		data, err := json.Marshal(o.Object)
		if err == nil {
			w.table, err = hostedpriority.ParseSizing(data)
		}
		if err != nil {
			w.problem(hostedpriority.NoSizes, "ClusterSizingConfiguration %s: %v", sizingName, err)
		}
		return
	}
	w.problem(hostedpriority.NoSizes, "the cluster has no ClusterSizingConfiguration %s; make it, or set hostedPriority.sizesFrom to config", sizingName)
}

func (w *world) problem(kind hostedpriority.Reason, format string, args ...any) {
	w.problems = append(w.problems, hostedpriority.Problem{Kind: kind, Text: fmt.Sprintf(format, args...)})
}

// unstructureds returns the objects of a store in the order of their names.
func unstructureds(objects []any) []*unstructured.Unstructured {
	all := make([]*unstructured.Unstructured, 0, len(objects))
	for _, o := range objects {
		if u, ok := o.(*unstructured.Unstructured); ok {
			all = append(all, u)
		}
	}
	slices.SortFunc(all, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
	})
	return all
}

type record struct {
	cluster *unstructured.Unstructured
	changes map[string]*string
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

// writeOne applies a merge patch of the annotations. It applies only to the version of the object
// that was read, so that a later change by another client causes a new pass.
func (f *Follower) writeOne(ctx context.Context, r record) error {
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": r.cluster.GetResourceVersion(), "annotations": r.changes,
	}})
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
