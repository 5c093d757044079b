package scheduler_test

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/profile"
	"sigs.k8s.io/yaml"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/plugin/autoscale"
	"github.com/cpupoold/cpupoold/internal/plugin/simulate"
)

const (
	machine = "1s16c2t"

	// pools has a shared pool of 4 CPUs and a guaranteed pool of 24.
	pools = `apiVersion: config.cpupoold.io/v1alpha1
kind: CPUPoolConfiguration
partitions:
- {type: management, cpus: 0-3}
guaranteed: {cpus: 8-31}
`
	// onlyShared has one resource, a shared pool of 32 CPUs.
	onlyShared = `apiVersion: config.cpupoold.io/v1alpha1
kind: CPUPoolConfiguration
guaranteed: {from: shared}
`
)

// newFramework returns the framework of the scheduler's default profile.
func newFramework(t *testing.T) framework.Framework {
	t.Helper()
	client := fake.NewClientset()
	s, err := scheduler.New(t.Context(), client, informers.NewSharedInformerFactory(client, 0), nil,
		profile.NewRecorderFactory(events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})))
	if err != nil {
		t.Fatal(err)
	}
	f := s.Profiles[corev1.DefaultSchedulerName]
	for _, name := range []string{"NodeResourcesFit", "TaintToleration", "NodeAffinity"} {
		if !slices.ContainsFunc(f.ListPlugins().Filter.Enabled, func(p schedulerconfig.Plugin) bool { return p.Name == name }) {
			t.Fatalf("the default profile has no filter %s", name)
		}
	}
	return f
}

// refusals returns why a pod does not fit on a node, or "".
func refusals(ctx context.Context, t *testing.T, f framework.Framework, pod *corev1.Pod, node fwk.NodeInfo) string {
	t.Helper()
	state := framework.NewCycleState()
	if _, status, _ := f.RunPreFilterPlugins(ctx, state, pod); !status.IsSuccess() && !status.IsSkip() {
		t.Fatalf("before the filters: %v", status.AsError())
	}
	status := f.RunFilterPlugins(ctx, state, pod, node)
	if status.IsSuccess() {
		return ""
	}
	return strings.Join(status.Reasons(), "; ")
}

// rendered returns a file of `kubectl cpupool render`.
func rendered(t *testing.T, text string, format autoscale.Format) []byte {
	t.Helper()
	m, err := simulate.Describe(machine)
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Parse([]byte(text), "config.yaml", config.Overrides{}, m)
	if err != nil {
		t.Fatal(err)
	}
	_, data, err := autoscale.Render(c, m, format, autoscale.Options{
		Memory: resource.MustParse("64Gi"), Name: "pools", Requirements: []string{"node.kubernetes.io/instance-type=m7i.8xlarge"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// provided returns the capacity of a machine that a provider knows without cpupoold.
func provided() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("32"), corev1.ResourceMemory: resource.MustParse("64Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
}

// fromStatus returns the capacity of a template with a rendered status, as cluster-autoscaler reads
// it (clusterapi_unstructured.go, InstanceCapacity).
func fromStatus(t *testing.T, text string) corev1.ResourceList {
	t.Helper()
	var template struct {
		Status struct {
			Capacity map[string]string
		}
	}
	if err := yaml.Unmarshal(rendered(t, text, autoscale.Capacity), &template); err != nil {
		t.Fatal(err)
	}
	capacity := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("110")}
	for name, value := range template.Status.Capacity {
		capacity[corev1.ResourceName(name)] = resource.MustParse(value)
	}
	return capacity
}

// fromAnnotations returns the capacity of a node group with the rendered annotations, as
// cluster-autoscaler reads it.
func fromAnnotations(t *testing.T, text string) corev1.ResourceList {
	t.Helper()
	var group struct{ Metadata metav1.ObjectMeta }
	if err := yaml.Unmarshal(rendered(t, text, autoscale.Annotations), &group); err != nil {
		t.Fatal(err)
	}
	const prefix = "capacity.cluster-autoscaler.kubernetes.io/"
	has := group.Metadata.Annotations
	count, err := strconv.ParseInt(has[prefix+"gpu-count"], 10, 0)
	if err != nil {
		t.Fatal(err)
	}
	return corev1.ResourceList{
		corev1.ResourceCPU:                          resource.MustParse(has[prefix+"cpu"]),
		corev1.ResourceMemory:                       resource.MustParse(has[prefix+"memory"]),
		corev1.ResourcePods:                         resource.MustParse("110"),
		corev1.ResourceName(has[prefix+"gpu-type"]): *resource.NewQuantity(count, resource.DecimalSI),
	}
}

// fromOverlay returns the capacity of an instance type with the rendered NodeOverlay. Karpenter adds
// the amounts of the overlay to the amounts of the provider.
func fromOverlay(t *testing.T, text string) corev1.ResourceList {
	t.Helper()
	var overlay struct {
		Spec struct {
			Capacity corev1.ResourceList
		}
	}
	if err := yaml.Unmarshal(rendered(t, text, autoscale.Karpenter), &overlay); err != nil {
		t.Fatal(err)
	}
	capacity := provided()
	maps.Copy(capacity, overlay.Spec.Capacity)
	return capacity
}

// newNode returns a node with a capacity and pods.
func newNode(capacity corev1.ResourceList, taints []corev1.Taint, pods ...*corev1.Pod) fwk.NodeInfo {
	info := framework.NewNodeInfo(pods...)
	info.SetNode(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "template", Labels: map[string]string{"pool": "burst"}},
		Spec:       corev1.NodeSpec{Taints: taints},
		Status:     corev1.NodeStatus{Capacity: capacity, Allocatable: capacity},
	})
	return info
}

// newPod returns a pod as the webhook admits it. With limits, it is Guaranteed.
func newPod(t *testing.T, cpu string, limits bool, annotations map[string]string) *corev1.Pod {
	t.Helper()
	amounts := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("1Gi")}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "apps", UID: "u", Annotations: annotations},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{"pool": "burst"},
			Containers:   []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: amounts}}},
		},
	}
	if limits {
		pod.Spec.Containers[0].Resources.Limits = amounts
	}
	settings := admission.Settings{Types: map[string]bool{"management": true}, SharedCPUs: true, GuaranteedCPUs: true}
	mutated, warnings, err := settings.Mutate(pod, admission.Origin{Namespace: map[string]string{"workload.openshift.io/allowed": "management"}})
	if err != nil || len(warnings) > 0 {
		t.Fatalf("the webhook: %v, warnings %v", err, warnings)
	}
	return mutated
}

// TestTemplates checks that the scheduler admits pods to nodes that do not exist yet, if the nodes
// have the rendered resources.
func TestTemplates(t *testing.T) {
	f := newFramework(t)
	shared, exclusive := newPod(t, "2", false, nil), newPod(t, "10", true, nil)
	management := newPod(t, "500m", false, map[string]string{"target.workload.openshift.io/management": `{"effect":"PreferredDuringScheduling"}`})
	templates := map[string]corev1.ResourceList{"machine template": fromStatus(t, pools), "NodeOverlay": fromOverlay(t, pools)}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		on   []*corev1.Pod
		want string // from the template
		bare string // without the resources of cpupoold
	}{
		"shared":           {pod: shared, bare: "Insufficient openshift.io/shared-cpus"},
		"exclusive":        {pod: exclusive, bare: "Insufficient openshift.io/guaranteed-cpus"},
		"management":       {pod: management, bare: "Insufficient management.workload.openshift.io/cores"},
		"exclusive, again": {pod: exclusive, on: []*corev1.Pod{exclusive}, bare: "Insufficient openshift.io/guaranteed-cpus"},
		"shared, too large": {
			pod: newPod(t, "5", false, nil), want: "Insufficient openshift.io/shared-cpus", bare: "Insufficient openshift.io/shared-cpus",
		},
		"exclusive, too large": {
			pod: newPod(t, "25", true, nil), want: "Insufficient openshift.io/guaranteed-cpus", bare: "Insufficient openshift.io/guaranteed-cpus",
		},
		"management, too large": {
			pod:  newPod(t, "32500m", false, management.Annotations),
			want: "Insufficient management.workload.openshift.io/cores", bare: "Insufficient management.workload.openshift.io/cores",
		},
		"a third exclusive": {
			pod: exclusive, on: []*corev1.Pod{exclusive, exclusive},
			want: "Insufficient openshift.io/guaranteed-cpus", bare: "Insufficient openshift.io/guaranteed-cpus",
		},
	} {
		for from, capacity := range templates {
			if got := refusals(t.Context(), t, f, c.pod, newNode(capacity, nil, c.on...)); got != c.want {
				t.Errorf("%s, %s: refused with %q, want %q", name, from, got, c.want)
			}
		}
		if got := refusals(t.Context(), t, f, c.pod, newNode(provided(), nil, c.on...)); got != c.bare {
			t.Errorf("%s, without the template: refused with %q, want %q", name, got, c.bare)
		}
	}
}

// TestExceptions checks that a pod of the webhook's exceptions fits on a node without the resources.
func TestExceptions(t *testing.T) {
	f, settings := newFramework(t), admission.Settings{SharedCPUs: true, GuaranteedCPUs: true}
	pod := newPod(t, "2", false, nil)
	settings.Exceptions.NodeLabels = map[string][]string{"pool": {"burst"}}
	excepted, _, err := settings.Mutate(pod, admission.Origin{})
	if err != nil {
		t.Fatal(err)
	}
	for want, p := range map[string]*corev1.Pod{"": excepted, "Insufficient openshift.io/shared-cpus": pod} {
		if got := refusals(t.Context(), t, f, p, newNode(provided(), nil)); got != want {
			t.Errorf("refused with %q, want %q", got, want)
		}
	}
}

// TestAnnotations checks the annotations of a node group, which have room for one resource.
func TestAnnotations(t *testing.T) {
	f, capacity := newFramework(t), fromAnnotations(t, onlyShared)
	for cpu, want := range map[string]string{"32": "", "33": "Insufficient cpu; Insufficient openshift.io/shared-cpus"} {
		if got := refusals(t.Context(), t, f, newPod(t, cpu, false, nil), newNode(capacity, nil)); got != want {
			t.Errorf("%s CPUs: refused with %q, want %q", cpu, got, want)
		}
	}
}

// TestStartupTaint checks why the autoscaler must know the startup taint: a template with the taint
// admits no pod.
func TestStartupTaint(t *testing.T) {
	f := newFramework(t)
	taint := corev1.Taint{Key: config.Default().Node.StartupTaint, Effect: corev1.TaintEffectNoSchedule}
	got := refusals(t.Context(), t, f, newPod(t, "2", false, nil), newNode(fromStatus(t, pools), []corev1.Taint{taint}))
	if !strings.Contains(got, "untolerated taint") {
		t.Errorf("refused with %q, want an untolerated taint", got)
	}
}
