package hostedclusters

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

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
	s.SetAPIVersion(u.GetAPIVersion())
	s.SetKind(u.GetKind())
	s.SetNamespace(u.GetNamespace())
	s.SetName(u.GetName())
	s.SetUID(u.GetUID())
	s.SetResourceVersion(u.GetResourceVersion())
	s.SetDeletionTimestamp(u.GetDeletionTimestamp())
	annotations := map[string]string{}
	for key, value := range u.GetAnnotations() {
		if strings.HasPrefix(key, "hosted-priority.cpupoold.io/") || strings.HasPrefix(key, "hypershift.openshift.io/") {
			annotations[key] = value
		}
	}
	s.SetAnnotations(annotations)
	keep := map[string][][]string{
		"NodePool":                   {{"spec", "clusterName"}, {"spec", "replicas"}, {"spec", "autoScaling"}, {"status", "replicas"}},
		"ClusterSizingConfiguration": {{"spec", "sizes"}},
		"PriorityClass":              {{"value"}},
	}[u.GetKind()]
	for _, path := range keep {
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
		if value, there, err := unstructured.NestedInt64(o.Object, "value"); err == nil && there {
			w.classes[o.GetName()] = value
		} else if err == nil { // omitempty
			w.classes[o.GetName()] = 0
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

// facts returns the fields of HostedClusters that package hostedpriority uses.
func facts(clusters []*unstructured.Unstructured, unwritten memory) []hostedpriority.HostedCluster {
	all := make([]hostedpriority.HostedCluster, 0, len(clusters))
	for _, c := range clusters {
		all = append(all, hostedpriority.HostedCluster{Namespace: c.GetNamespace(), Name: c.GetName(), Annotations: c.GetAnnotations(), Had: unwritten.had(c)})
	}
	return all
}
