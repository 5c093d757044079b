//go:build apiserver

package apiserver_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// quotaKinds returns one pod of each kind, in a fixed order.
func quotaKinds() []*corev1.Pod {
	return []*corev1.Pod{
		newPod("management", management(), "cpu=400m memory=1Gi"),
		newPod("shared", nil, "cpu=300m memory=1Gi"),
		newPod("exclusive", nil, "cpu=2 memory=1Gi | cpu=2 memory=1Gi"),
		newPod("idle", nil, "memory=1Gi"),
	}
}

// TestQuota creates one pod of each kind in namespaces with one ResourceQuota each, before the
// webhook is installed and afterwards. docs/how-to/set-quotas.md has the results.
func TestQuota(t *testing.T) {
	s := startAPIServer(t)
	prepare(t, s)
	const (
		admitted = "admitted"
		exceeded = "exceeded quota"
	)
	all := func(verdict string) []string { return slices.Repeat([]string{verdict}, 4) }
	cases := []struct {
		key, hard     string
		before, after []string // verdicts on management, shared, exclusive and idle pods
		used          string   // after the creation of all pods that are admitted
		second        string   // verdict on a second exclusive pod
	}{
		{
			"cpu", "4", []string{admitted, admitted, admitted, "must specify cpu"},
			[]string{"must specify cpu", admitted, admitted, "must specify cpu"}, "2300m", exceeded,
		},
		{
			"requests.cpu", "4", []string{admitted, admitted, admitted, "must specify requests.cpu"},
			[]string{"must specify requests.cpu", admitted, admitted, "must specify requests.cpu"}, "2300m", exceeded,
		},
		{
			"limits.cpu", "4", []string{"must specify limits.cpu", "must specify limits.cpu", admitted, "must specify limits.cpu"},
			[]string{"must specify limits.cpu", "must specify limits.cpu", admitted, "must specify limits.cpu"}, "2", admitted,
		},
		{"requests." + shared, "1k", all(admitted), all(admitted), "300", admitted},
		{"requests." + guaranteed, "3k", all(admitted), all(admitted), "2k", exceeded},
		{"requests." + guaranteed, "3", all(admitted), []string{admitted, admitted, exceeded, admitted}, "0", exceeded},
		{"requests." + cores, "1k", all(admitted), all(admitted), "400", admitted},
		// Quotas count extended resources with the prefix "requests." only.
		{guaranteed, "1", all(admitted), all(admitted), "", admitted},
		{"limits." + guaranteed, "1", all(admitted), all(admitted), "", admitted},
		{"pods", "5", all(admitted), all(admitted), "4", admitted},
		{"count/pods", "5", all(admitted), all(admitted), "4", admitted},
	}
	namespace := func(i int) string { return "quota-" + string(rune('a'+i)) }
	for i, c := range cases {
		namespaceNamed(t, s, namespace(i), "management")
		limit(t, s, namespace(i), corev1.ResourceName(c.key), c.hard)
	}
	verdict := func(namespace string, pod *corev1.Pod, dry bool) string {
		options := metav1.CreateOptions{}
		if dry {
			options.DryRun = []string{metav1.DryRunAll}
		}
		_, err := s.client(t, alice).CoreV1().Pods(namespace).Create(t.Context(), pod, options)
		if err == nil {
			return admitted
		}
		return err.Error()
	}
	check := func(when string, want func(i int) []string) {
		for i, c := range cases {
			for k, pod := range quotaKinds() {
				if got := verdict(namespace(i), pod, true); !strings.Contains(got, want(i)[k]) {
					t.Errorf("%s, quota of %s %s, %s pod: %s; want %s", when, c.hard, c.key, pod.Name, got, want(i)[k])
				}
			}
		}
	}
	check("before the webhook", func(i int) []string { return cases[i].before })

	startReplica(t, s)
	send(t, s)
	nodeWith(t, s, "n1", cores, shared, guaranteed)
	latched(t, s)
	check("with the webhook", func(i int) []string { return cases[i].after })
	for i, c := range cases {
		for k, pod := range quotaKinds() {
			if got := verdict(namespace(i), pod, false); !strings.Contains(got, c.after[k]) {
				t.Errorf("quota of %s %s, %s pod: %s; want %s", c.hard, c.key, pod.Name, got, c.after[k])
			}
		}
		q, err := s.client(t, admin).CoreV1().ResourceQuotas(namespace(i)).Get(t.Context(), "q", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		used, counted := q.Status.Used[corev1.ResourceName(c.key)]
		if got := used.String(); counted && got != c.used && (c.used != "" || got != "0") {
			t.Errorf("quota of %s %s: %s used; want %s", c.hard, c.key, got, c.used)
		}
		second := newPod("second", nil, "cpu=2 memory=1Gi | cpu=2 memory=1Gi")
		if got := verdict(namespace(i), second, true); !strings.Contains(got, c.second) {
			t.Errorf("quota of %s %s, second exclusive pod: %s; want %s", c.hard, c.key, got, c.second)
		}
	}
}

// limit creates a ResourceQuota with its status, as the quota controller does, and waits until
// the API server applies it.
func limit(t *testing.T, s *apiServer, namespace string, key corev1.ResourceName, hard string) {
	t.Helper()
	most := corev1.ResourceList{key: resource.MustParse(hard)}
	quotas := s.client(t, admin).CoreV1().ResourceQuotas(namespace)
	q, err := quotas.Create(t.Context(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: corev1.ResourceQuotaSpec{Hard: most}}, metav1.CreateOptions{})
	if err == nil {
		q.Status = corev1.ResourceQuotaStatus{Hard: most, Used: corev1.ResourceList{key: resource.MustParse("0")}}
		_, err = quotas.UpdateStatus(t.Context(), q, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	// Without the status, the API server refuses all pods of the namespace.
	eventually(t, "the quota of "+namespace+" has its status", func(ctx context.Context) error {
		pod := newPod("x", nil, "cpu=100m memory=1Gi | cpu=100m memory=1Gi")
		_, err := s.client(t, alice).CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
}

// limitRanges give management pods a CPU request that they have not asked for, or ask for one
// when the webhook has made it another resource.
func limitRanges(t *testing.T, s *apiServer) {
	const (
		ofContainer = corev1.LimitTypeContainer
		ofPod       = corev1.LimitTypePod
		small       = "cpu=400m memory=1Gi"
		whole       = "cpu=2 memory=1Gi | cpu=2 memory=1Gi"
	)
	of := func(name corev1.ResourceName, amount string) corev1.ResourceList {
		return corev1.ResourceList{name: resource.MustParse(amount)}
	}
	both := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	for _, c := range []struct {
		namespace   string
		typ         corev1.LimitType
		item        corev1.LimitRangeItem
		annotations map[string]string
		resources   string // of the pod
		want        string // its requests, and the annotation
		shares      string
		refusal     string // or part of the refusal
	}{
		{"default-request", ofContainer, corev1.LimitRangeItem{DefaultRequest: list("250m")}, management(), "memory=1Gi", cores + "=250", `{"cpushares":256}`, ""},
		{"own-request", ofContainer, corev1.LimitRangeItem{DefaultRequest: list("250m")}, management(), small, cores + "=400", `{"cpushares":409}`, ""},
		{"own-and-limit", ofContainer, corev1.LimitRangeItem{Default: list("500m")}, management(), small, cores + "=400", `{"cpushares":409,"cpulimit":500}`, ""},
		{"default-limit", ofContainer, corev1.LimitRangeItem{Default: list("500m"), DefaultRequest: list("100m")}, management(), "memory=1Gi", cores + "=100", `{"cpushares":102,"cpulimit":500}`, ""},
		{"limit-is-request", ofContainer, corev1.LimitRangeItem{Default: list("500m")}, management(), "memory=1Gi", cores + "=500", `{"cpushares":512,"cpulimit":500}`, ""},
		// Limits of CPU and memory are requests, too: containers without any value have whole CPUs.
		{"guaranteed-by-default", ofContainer, corev1.LimitRangeItem{Default: both}, nil, "", "cpu=1 " + guaranteed + "=1k", "", ""},
		{"not-management", ofContainer, corev1.LimitRangeItem{Default: both}, management(), "", "cpu=1 " + guaranteed + "=1k", "", ""},
		// The last check sees neither request nor limit of CPU.
		{"minimum", ofContainer, corev1.LimitRangeItem{Min: list("100m")}, management(), small, "", "", "minimum cpu usage per Container is 100m"},
		{"maximum", ofContainer, corev1.LimitRangeItem{Max: list("2")}, management(), small, "", "", "maximum cpu usage per Container is 2"},
		{"ratio", ofContainer, corev1.LimitRangeItem{MaxLimitRequestRatio: list("2")}, management(), small + " | cpu=400m", "", "", "cpu max limit to request ratio per Container is 2"},
		{"pod-minimum", ofPod, corev1.LimitRangeItem{Min: list("100m")}, management(), small, "", "", "minimum cpu usage per Pod is 100m"},
		{"pod-maximum", ofPod, corev1.LimitRangeItem{Max: list("2")}, management(), small + " | cpu=400m", "", "", "maximum cpu usage per Pod is 2"},
		{"pod-ratio", ofPod, corev1.LimitRangeItem{MaxLimitRequestRatio: list("2")}, management(), small + " | cpu=400m", "", "", "cpu max limit to request ratio per Pod is 2"},
		// Pods of the other pools keep their CPU requests.
		{"minimum-shared", ofContainer, corev1.LimitRangeItem{Min: list("100m")}, nil, small, "cpu=400m " + shared + "=400", "", ""},
		{"maximum-exclusive", ofPod, corev1.LimitRangeItem{Max: list("1")}, nil, whole, "", "", "maximum cpu usage per Pod is 1"},
		// Bounds on the resource of a pool refuse all pods without it.
		{"pool-maximum", ofContainer, corev1.LimitRangeItem{Max: of(guaranteed, "4k")}, nil, small, "", "", "maximum " + guaranteed + " usage per Container is 4k"},
		{"pool-minimum", ofContainer, corev1.LimitRangeItem{Min: of(shared, "100")}, nil, "memory=1Gi", "", "", "minimum " + shared + " usage per Container is 100"},
		{"pool-default", ofContainer, corev1.LimitRangeItem{Default: of(guaranteed, "1k")}, nil, small, "cpu=400m " + shared + "=400", "", ""},
	} {
		namespaceNamed(t, s, c.namespace, "management")
		c.item.Type = c.typ
		if _, err := s.client(t, admin).CoreV1().LimitRanges(c.namespace).Create(t.Context(), &corev1.LimitRange{
			ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{c.item}},
		}, metav1.CreateOptions{}); err != nil {
			t.Errorf("%s: %v", c.namespace, err)
			continue
		}
		pod := newPod("p", maps.Clone(c.annotations), c.resources)
		if c.refusal != "" {
			_, err := create(t, s, c.namespace, pod)
			refusedWith(t, c.namespace, err, c.refusal)
			continue
		}
		got := becomes(t, s, c.namespace, pod, c.want)
		if got.Annotations[shares] != c.shares {
			t.Errorf("%s: annotations %v, want shares %s", c.namespace, got.Annotations, c.shares)
		}
	}
}
