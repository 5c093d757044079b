package hostedclusters

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/cpupoold/cpupoold/internal/cluster/hostedpriority"
)

// groups holds the kinds of the cluster by group and version.
type groups struct {
	mu    sync.Mutex
	there map[string][]string
	err   error
}

func (g *groups) set(there map[string][]string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.there = there
}

func (g *groups) ServerResourcesForGroupVersion(version string) (*metav1.APIResourceList, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return nil, g.err
	}
	names, there := g.there[version]
	if !there {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, version)
	}
	list := &metav1.APIResourceList{GroupVersion: version}
	for _, name := range names {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
	}
	return list, nil
}

func withHyperShift() map[string][]string {
	return map[string][]string{
		"hypershift.openshift.io/v1beta1": {"hostedclusters", "hostedclusters/status", "nodepools"}, "scheduling.k8s.io/v1": {"priorityclasses"},
	}
}

func without() map[string][]string {
	return map[string][]string{"scheduling.k8s.io/v1": {"priorityclasses"}}
}

// object decodes an object from JSON.
func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return u
}

func hostedCluster(t *testing.T, namespace, name, annotations string) *unstructured.Unstructured {
	t.Helper()
	return object(t, `{"apiVersion":"hypershift.openshift.io/v1beta1","kind":"HostedCluster","metadata":{"namespace":"`+namespace+`","name":"`+name+
		`","resourceVersion":"1","labels":{"a":"b"},"annotations":{`+annotations+`}},"spec":{"x":1},"status":{"y":[1]}}`)
}

func nodePool(t *testing.T, namespace, name, spec string) *unstructured.Unstructured {
	t.Helper()
	return object(t, `{"apiVersion":"hypershift.openshift.io/v1beta1","kind":"NodePool","metadata":{"namespace":"`+namespace+`","name":"`+name+`"},"spec":{`+spec+`}}`)
}

func sizing(t *testing.T, name, sizes string) *unstructured.Unstructured {
	t.Helper()
	return object(t, `{"apiVersion":"scheduling.hypershift.openshift.io/v1alpha1","kind":"ClusterSizingConfiguration","metadata":{"name":"`+name+`"},"spec":{"sizes":[`+sizes+`]}}`)
}

// classObjects returns the PriorityClasses of the default.
func classObjects(t *testing.T) (all []any) {
	t.Helper()
	c := hostedpriority.Default()
	for _, s := range c.Sizes {
		for _, c := range []hostedpriority.Class{s.ControlPlane, s.Etcd} {
			value, err := json.Marshal(c.Value)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, object(t, `{"apiVersion":"scheduling.k8s.io/v1","kind":"PriorityClass","metadata":{"name":"`+c.Name+`"},"value":`+string(value)+`}`))
		}
	}
	return all
}

// TestRead checks that an unreadable object is a problem and has no other effect.
func TestRead(t *testing.T) {
	ending := nodePool(t, "clusters", "ending", `"clusterName":"a","replicas":90`)
	ending.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
	objects := map[schema.GroupVersionResource][]any{
		priorityClasses(): classObjects(t),
		hostedClusters():  {hostedCluster(t, "clusters", "b", ""), hostedCluster(t, "clusters", "a", "")},
		nodePools(): {
			nodePool(t, "clusters", "p", `"clusterName":"a","replicas":11`), ending, nodePool(t, "clusters", "bad", `"clusterName":"a","replicas":-3`),
		},
		sizings(): {sizing(t, "other", `{"name":"x","criteria":{"from":0}}`)},
	}
	config := hostedpriority.Default()
	for _, c := range []struct {
		from     hostedpriority.SizesFrom
		sizing   []any
		sizes    int
		problems []string
	}{
		{hostedpriority.FromConfig, nil, 7, []string{"NodePool clusters/bad counts for no nodes: has -3 nodes"}},
		{hostedpriority.FromSizing, nil, 0, []string{"NodePool clusters/bad", "the cluster has no ClusterSizingConfiguration cluster"}},
		{hostedpriority.FromSizing, []any{sizing(t, "cluster", `{"name":"x","criteria":{"from":0}}`)}, 1, []string{"NodePool clusters/bad"}},
		{hostedpriority.FromSizing, []any{sizing(t, "cluster", `{"name":"x","criteria":{"from":3}}`)}, 0, []string{"NodePool clusters/bad", "leave out numbers of nodes"}},
	} {
		config.SizesFrom = c.from
		objects[sizings()] = append(objects[sizings()][:1:1], c.sizing...)
		w := read(&config, objects)
		if len(w.table.Sizes()) != c.sizes || len(w.pools) != 1 || len(w.classes) != 14 || w.classes["hypershift-etcd-s"] != 2_500_000 || w.clusters[0].GetName() != "a" {
			t.Errorf("sizes %v, pools %v, classes %v, first cluster %s", w.table.Sizes(), w.pools, w.classes, w.clusters[0].GetName())
		}
		if len(w.problems) != len(c.problems) {
			t.Fatalf("problems %v; want %q", w.problems, c.problems)
		}
		for i, want := range c.problems {
			if !strings.Contains(w.problems[i].Text, want) {
				t.Errorf("problem %q; want one with %q", w.problems[i].Text, want)
			}
		}
	}
}

// TestSlim checks that slim keeps the fields that are needed for the same answer, and no others.
func TestSlim(t *testing.T) {
	o := hostedCluster(t, "clusters", "a", `"hypershift.openshift.io/etcd-priority-class":"gold","kubectl.kubernetes.io/last-applied-configuration":"long"`)
	got, err := slim(o)
	if err != nil {
		t.Fatal(err)
	}
	want := object(t, `{"apiVersion":"hypershift.openshift.io/v1beta1","kind":"HostedCluster","metadata":{"namespace":"clusters","name":"a","resourceVersion":"1",
		"annotations":{"hypershift.openshift.io/etcd-priority-class":"gold"}}}`)
	if d := cmp.Diff(want.Object, got.(*unstructured.Unstructured).Object); d != "" {
		t.Errorf("HostedCluster (-want +got):\n%s", d)
	}
	pool := nodePool(t, "clusters", "p", `"clusterName":"a","autoScaling":{"min":2,"max":4},"platform":{"type":"KubeVirt"}`)
	if err := unstructured.SetNestedField(pool.Object, int64(3), "status", "replicas"); err != nil {
		t.Fatal(err)
	}
	if got, err = slim(pool); err != nil {
		t.Fatal(err)
	}
	w := read(&hostedpriority.Config{SizesFrom: hostedpriority.FromSizing}, map[schema.GroupVersionResource][]any{nodePools(): {got}})
	if len(w.pools) != 1 || w.pools[0].Nodes() != 3 {
		t.Errorf("pools %+v of %v", w.pools, got)
	}
}

// newFake returns a follower of a cluster with objects.
func newFake(t *testing.T, there *groups, objects ...any) (*Follower, *fake.FakeDynamicClient, *prometheus.Registry) {
	t.Helper()
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		hostedClusters(): "HostedClusterList", nodePools(): "NodePoolList", priorityClasses(): "PriorityClassList", sizings(): "ClusterSizingConfigurationList",
	})
	for _, o := range objects {
		u := o.(*unstructured.Unstructured)
		kind := map[string]schema.GroupVersionResource{"HostedCluster": hostedClusters(), "NodePool": nodePools(), "PriorityClass": priorityClasses()}[u.GetKind()]
		if err := client.Tracker().Create(kind, u, u.GetNamespace()); err != nil {
			t.Fatal(err)
		}
	}
	registry := prometheus.NewRegistry()
	f := newFollower(Options{Config: hostedpriority.Default(), Registry: registry, Log: slog.New(slog.DiscardHandler)}, client, there)
	return f, client, registry
}

// metric returns the value of a metric with a label's value.
func metric(t *testing.T, registry *prometheus.Registry, name, label string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (len(m.GetLabel()) == 0 && label == "" || slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetValue() == label })) {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("there is no %s of %q", name, label)
	return 0
}

func annotations(t *testing.T, client *fake.FakeDynamicClient, name string) map[string]string {
	t.Helper()
	u, err := client.Resource(hostedClusters()).Namespace("clusters").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return u.GetAnnotations()
}

// TestFollow checks that the follower sees HyperShift appear, a cluster grow and shrink, and
// HyperShift disappear.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		there := &groups{there: without()}
		objects := append(classObjects(t), hostedCluster(t, "clusters", "a", `"mine":"x"`), nodePool(t, "clusters", "p", `"clusterName":"a","replicas":11`))
		f, client, registry := newFake(t, there, objects...)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- f.Start(ctx) }()
		go f.Lead(ctx)
		class := func(want string) {
			t.Helper()
			synctest.Wait()
			if got := f.Class("clusters-a", "hypershift-etcd"); got != want {
				t.Errorf("class %q; want %q", got, want)
			}
		}
		<-f.Known() // at once: nothing is there to be known
		class("")
		if n := metric(t, registry, "cpupool_webhook_hosted_priority_pods_total", "unknown"); n != 1 {
			t.Errorf("%v pods of an unknown kind; want 1", n)
		}

		there.set(withHyperShift())
		time.Sleep(look + time.Second) //nolint:forbidigo // of a bubble: no time passes
		class("hypershift-etcd-s")
		if following := metric(t, registry, "cpupool_webhook_hosted_priority_following", ""); following != 1 {
			t.Errorf("following %v; want 1", following)
		}
		want := map[string]string{
			"mine": "x", hostedpriority.SizeKey: "s", hostedpriority.ControlPlane.ClassKey(): "hypershift-s",
			hostedpriority.APICritical.ClassKey(): "hypershift-s", hostedpriority.Etcd.ClassKey(): "hypershift-etcd-s",
		}
		if d := cmp.Diff(want, annotations(t, client, "a")); d != "" {
			t.Errorf("annotations (-want +got):\n%s", d)
		}

		for _, replicas := range []string{"51", "1"} { // never lowered
			if _, err := client.Resource(nodePools()).Namespace("clusters").Update(ctx, nodePool(t, "clusters", "p", `"clusterName":"a","replicas":`+replicas), metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			class("hypershift-etcd-l")
		}
		if got := annotations(t, client, "a")[hostedpriority.SizeKey]; got != "l" {
			t.Errorf("size %s is written; want l", got)
		}
		if n := metric(t, registry, "cpupool_webhook_hosted_clusters", "l"); n != 1 {
			t.Errorf("%v clusters of size l; want 1", n)
		}

		there.set(without())
		time.Sleep(look + time.Second) //nolint:forbidigo // of a bubble
		class("")
		if following := metric(t, registry, "cpupool_webhook_hosted_priority_following", ""); following != 0 {
			t.Errorf("followed objects after their removal = %v; want 0", following)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestOneWrites checks that replicas with different configurations decide independently, that
// only one of them writes, and that another one can take over.
func TestOneWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		there := &groups{there: withHyperShift()}
		f, client, _ := newFake(t, there, append(classObjects(t), hostedCluster(t, "clusters", "a", ""), nodePool(t, "clusters", "p", `"clusterName":"a","replicas":11`))...)
		config := hostedpriority.Default()
		few := int64(12)
		config.Sizes[0].MaxNodes = &few // 11 nodes are xs
		other := newFollower(Options{Config: config, Registry: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler)}, client, there)
		ctx, cancel := context.WithCancel(t.Context())
		leading, resign := context.WithCancel(ctx)
		var working sync.WaitGroup
		for _, f := range []*Follower{f, other} {
			working.Go(func() {
				if err := f.Start(ctx); err != nil {
					t.Error(err)
				}
			})
			<-f.Known()
		}
		synctest.Wait()
		if got := annotations(t, client, "a")[hostedpriority.SizeKey]; got != "" {
			t.Errorf("who does not lead has written %s", got)
		}
		working.Go(func() { other.Lead(leading) })
		synctest.Wait()
		patches := func() (n int) {
			for _, a := range client.Actions() {
				if a.GetVerb() == "patch" {
					n++
				}
			}
			return n
		}
		if got := annotations(t, client, "a")[hostedpriority.SizeKey]; got != "xs" || patches() != 1 {
			t.Errorf("size %q after %d writes; want xs after one", got, patches())
		}
		resign()
		synctest.Wait()
		working.Go(func() { f.Lead(ctx) })
		synctest.Wait()
		if got := annotations(t, client, "a")[hostedpriority.SizeKey]; got != "s" || patches() != 2 {
			t.Errorf("size %q after %d writes; want s after two", got, patches())
		}
		cancel()
		working.Wait()
	})
}

// TestWriteOthers checks that a failing write of one cluster does not affect other clusters, and
// that the cluster does not lose its size.
func TestWriteOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := hostedCluster(t, "clusters", "a", "")
		a.SetUID("1")
		objects := append(classObjects(t), a, hostedCluster(t, "clusters", "b", ""), nodePool(t, "clusters", "p", `"clusterName":"a","replicas":60`))
		f, client, _ := newFake(t, &groups{there: withHyperShift()}, objects...)
		client.PrependReactor("patch", "hostedclusters", func(action clienttesting.Action) (bool, runtime.Object, error) {
			return action.(clienttesting.PatchAction).GetName() == "a", nil, apierrors.NewForbidden(hostedClusters().GroupResource(), "a", nil)
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- f.Start(ctx) }()
		go f.Lead(ctx)
		<-f.Known()
		synctest.Wait()
		if got := annotations(t, client, "b")[hostedpriority.SizeKey]; got != "xs" {
			t.Errorf("size %q of the other cluster is written; want %q", got, "xs")
		}
		if _, err := client.Resource(nodePools()).Namespace("clusters").Update(ctx, nodePool(t, "clusters", "p", `"clusterName":"a","replicas":1`), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := f.Class("clusters-a", "hypershift-etcd"); got != "hypershift-etcd-l" {
			t.Errorf("class %s after the cluster has shrunk; want that of size l, which it had", got)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestWriteOrder checks that clusters with a failed write come last, and that only the leading
// replica writes.
func TestWriteOrder(t *testing.T) {
	var records []record
	objects := classObjects(t)
	for _, name := range []string{"a", "b"} {
		c := hostedCluster(t, "clusters", name, "")
		c.SetUID(types.UID(name))
		objects = append(objects, c)
		size := "xs"
		records = append(records, record{c, map[string]*string{hostedpriority.SizeKey: &size}})
	}
	f, client, _ := newFake(t, &groups{there: withHyperShift()}, objects...)
	var order string
	client.PrependReactor("patch", "hostedclusters", func(action clienttesting.Action) (bool, runtime.Object, error) {
		name := action.(clienttesting.PatchAction).GetName()
		order += name
		return name == "a", nil, apierrors.NewForbidden(hostedClusters().GroupResource(), name, nil)
	})
	if err := f.write(t.Context(), records); err != nil || order != "" {
		t.Errorf("who does not lead writes %q: %v", order, err)
	}
	f.leads.Store(true)
	for range 2 {
		if err := f.write(t.Context(), records); err == nil {
			t.Error("a failure is not told")
		}
	}
	if order != "abba" {
		t.Errorf("written in the order %s; want abba", order)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.write(over, records); err == nil || !strings.Contains(err.Error(), "2 more HostedClusters") {
		t.Errorf("error %v; want one that counts who is left", err)
	}
}

// TestMemory checks that clusters that are recorded, opted out or deleted are forgotten.
func TestMemory(t *testing.T) {
	a := hostedCluster(t, "clusters", "a", "")
	a.SetUID("1")
	written := hostedCluster(t, "clusters", "a", `"`+hostedpriority.SizeKey+`":"l"`)
	written.SetUID("1")
	l := []hostedpriority.Choice{{Size: "l"}}
	for name, keep := range map[string]func(m memory){
		"written":   func(m memory) { m.keep([]*unstructured.Unstructured{written}, l) },
		"opted out": func(m memory) { m.keep([]*unstructured.Unstructured{a}, []hostedpriority.Choice{{OptedOut: true}}) },
		"gone":      func(m memory) { m.keep(nil, nil) },
		"less is written": func(m memory) {
			less := hostedCluster(t, "clusters", "a", `"`+hostedpriority.SizeKey+`":"xs"`)
			less.SetUID("1")
			if had := m.had(less); had != "" {
				t.Errorf("%s is remembered though xs is written; want an empty string", had)
			}
			m.keep([]*unstructured.Unstructured{less}, []hostedpriority.Choice{{Size: "xs"}})
		},
	} {
		m := memory{}
		m.keep([]*unstructured.Unstructured{a}, l)
		if got := m.had(a); got != "l" {
			t.Errorf("%s: %q is remembered; want %q", name, got, "l")
		}
		if keep(m); len(m) > 0 {
			t.Errorf("%s: %v is still remembered", name, m)
		}
	}
}

// TestWriteAgain checks that a failed write is repeated, and that pods get their class in any case.
func TestWriteAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, client, registry := newFake(t, &groups{there: withHyperShift()}, append(classObjects(t), hostedCluster(t, "clusters", "a", ""))...)
		var mu sync.Mutex
		fails := true
		client.PrependReactor("patch", "hostedclusters", func(action clienttesting.Action) (bool, runtime.Object, error) {
			mu.Lock()
			defer mu.Unlock()
			var patch struct {
				Metadata struct{ ResourceVersion string }
			}
			if err := json.Unmarshal(action.(clienttesting.PatchAction).GetPatch(), &patch); err != nil || patch.Metadata.ResourceVersion == "" {
				t.Errorf("the patch is not one of what was seen: %v", err)
			}
			if fails {
				return true, nil, apierrors.NewForbidden(hostedClusters().GroupResource(), "a", nil)
			}
			return false, nil, nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- f.Start(ctx) }()
		go f.Lead(ctx)
		<-f.Known()
		synctest.Wait()
		if got := f.Class("clusters-a", "hypershift-control-plane"); got != "hypershift-xs" {
			t.Errorf("class %q; want %q", got, "hypershift-xs")
		}
		if n := metric(t, registry, "cpupool_webhook_hosted_priority_records_total", resultFailed); n != 1 {
			t.Errorf("%v writes have failed; want 1", n)
		}
		mu.Lock()
		fails = false
		mu.Unlock()
		time.Sleep(2 * time.Minute) //nolint:forbidigo // of a bubble
		synctest.Wait()
		if got := annotations(t, client, "a")[hostedpriority.SizeKey]; got != "xs" {
			t.Errorf("size %q is written; want %q", got, "xs")
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestKnownInTheEnd checks that pods are created even if the cluster's kinds stay unknown.
func TestKnownInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _, _ := newFake(t, &groups{err: apierrors.NewServiceUnavailable("away")})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		began := time.Now()
		go func() { ended <- f.Start(ctx) }()
		<-f.Known()
		if waited := time.Since(began); waited != knownTimeout {
			t.Errorf("it is known after %v; want %v", waited, knownTimeout)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestProblemsAreLoggedOnce checks that a problem is logged once, and again after it was absent.
func TestProblemsAreLoggedOnce(t *testing.T) {
	var log strings.Builder
	f, _, registry := newFake(t, &groups{})
	f.log = slog.New(slog.NewTextHandler(&log, nil))
	config := hostedpriority.Default()
	bad := read(&config, map[schema.GroupVersionResource][]any{
		priorityClasses(): classObjects(t),
		hostedClusters(): {
			hostedCluster(t, "clusters", "a", `"`+hostedpriority.DedicatedKey+`":"yes"`), hostedCluster(t, "x-y", "z", ""), hostedCluster(t, "x", "y-z", ""),
		},
	})
	good := read(&config, nil)
	for i, c := range []struct {
		w      world
		logged int
	}{{bad, 3}, {bad, 3}, {good, 3}, {bad, 6}} {
		f.pass(c.w)
		if logged := strings.Count(log.String(), "problem="); logged != c.logged {
			t.Errorf("pass %d: %d problems in the log; want %d:\n%s", i, logged, c.logged, log.String())
		}
	}
	got := map[string]float64{}
	for _, kind := range hostedpriority.Problems() {
		got[string(kind)] = metric(t, registry, "cpupool_webhook_hosted_priority_problems", string(kind))
	}
	maps.DeleteFunc(got, func(_ string, n float64) bool { return n == 0 })
	if d := cmp.Diff(map[string]float64{"annotation": 1, "ambiguous": 2}, got); d != "" {
		t.Errorf("problems (-want +got):\n%s", d)
	}
}
