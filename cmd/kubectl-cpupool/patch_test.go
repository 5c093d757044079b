package main

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/cpupoold/cpupoold/pkg/workload"
)

// kubeadmApplies patches a pod as kubeadm does (kubeadm util/patches).
func kubeadmApplies(t *testing.T, pod *corev1.Pod, patch []byte) *corev1.Pod {
	t.Helper()
	if patch == nil {
		return pod
	}
	original, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]any
	if err := yaml.Unmarshal(patch, &members); err != nil {
		t.Fatalf("the patch is no YAML: %v\n%s", err, patch)
	}
	text, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	patched, err := strategicpatch.StrategicMergePatch(original, text, corev1.Pod{})
	if err != nil {
		t.Fatalf("the patch does not apply: %v\n%s", err, patch)
	}
	result := &corev1.Pod{}
	if err := json.Unmarshal(patched, result); err != nil {
		t.Fatal(err)
	}
	return result
}

// FuzzStrategicPatch checks that the patch gives the same pod as mutate, whether or not
// the pod had been mutated before.
func FuzzStrategicPatch(f *testing.F) {
	f.Add([]byte("\x01\x10\x20\x00"), byte(3), true)
	f.Add([]byte("\x11\x22\x33\x44\x01\x02\x03\x04"), byte(1), true)
	f.Add([]byte("\xff\xff\xff\xff\xff\xff"), byte(0), true)
	f.Add([]byte("\x55\x77"), byte(2), false)
	f.Add([]byte("\x04\x00\x07\x00"), byte(4), true)
	f.Fuzz(func(t *testing.T, amounts []byte, switches byte, asks bool) {
		if len(amounts) > 64 {
			return
		}
		o := mutateOptions{}
		o.settings.Types = map[string]bool{"management": true}
		o.settings.SharedCPUs, o.settings.GuaranteedCPUs = switches&1 != 0, switches&2 != 0
		if asks {
			o.target = "management"
		}
		if switches&4 != 0 {
			o.memory = resource.MustParse("1Mi")
		}
		pod := podOf(amounts)
		mutated, _, err := o.mutate(pod)
		if err != nil {
			t.Fatal(err)
		}
		again, _, err := o.mutate(mutated)
		if err != nil {
			t.Fatal(err)
		}
		first, err := o.strategicPatch(pod, mutated)
		if err != nil {
			t.Fatal(err)
		}
		second, err := o.strategicPatch(mutated, again)
		if err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			pod, want *corev1.Pod
			patch     []byte
		}{
			"of the original, on the original": {pod, mutated, first},
			"of the original, on the result":   {mutated, mutated, first},
			"of the result, on the result":     {mutated, again, second},
		} {
			if got := kubeadmApplies(t, c.pod, c.patch); !equality.Semantic.DeepEqual(got, c.want) {
				t.Errorf("patch %s (-mutate +patch):\n%s\n%s", name, cmp.Diff(text(t, c.want), text(t, got)), c.patch)
			}
		}
		// mutate finds only CPU requests in kubeadm's manifests. Then all kinds of patches give
		// the same result.
		managed := false
		for key := range mutated.Annotations {
			managed = managed || o.settings.Names.Requests(key)
		}
		if got := kubeadmApplies(t, pod, second); managed && plain(pod) && !equality.Semantic.DeepEqual(got, mutated) {
			t.Errorf("patch of the result, on the original (-mutate +patch):\n%s\n%s", cmp.Diff(text(t, mutated), text(t, got)), second)
		}
	})
}

// plain reports whether a pod is free of our annotations and resources.
func plain(pod *corev1.Pod) bool {
	names := workload.Names{}
	for key := range pod.Annotations {
		if names.Requests(key) || key == names.WarningKey() {
			return false
		}
	}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range list {
			for _, r := range []corev1.ResourceList{c.Resources.Requests, c.Resources.Limits} {
				for name := range r {
					if name != corev1.ResourceCPU && name != corev1.ResourceMemory {
						return false
					}
				}
			}
		}
	}
	return true
}

// podOf makes a pod with a container for each two bytes.
func podOf(amounts []byte) *corev1.Pod {
	pod := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: "kube-apiserver", Annotations: map[string]string{"kubeadm.kubernetes.io/a": "b"}},
	}
	for i := 0; i+1 < len(amounts); i += 2 {
		c := corev1.Container{Name: "c" + string(rune('a'+i/2)), Image: "i", Env: []corev1.EnvVar{{Name: "E", Value: "v"}}}
		c.Resources.Requests, c.Resources.Limits = listOf(amounts[i]), listOf(amounts[i+1])
		if amounts[i]&0xc0 == 0xc0 {
			pod.Annotations["resources.workload.openshift.io/"+c.Name] = admissionValue(amounts[i+1])
		}
		if amounts[i]&3 == 3 {
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
		} else {
			pod.Spec.Containers = append(pod.Spec.Containers, c)
		}
	}
	return pod
}

func admissionValue(b byte) string {
	return workload.Resources{Shares: workload.MinShares + uint64(b)*100}.Encode()
}

func listOf(b byte) corev1.ResourceList {
	list := corev1.ResourceList{}
	for bit, name := range []corev1.ResourceName{"cpu", "memory", "management.workload.openshift.io/cores", "openshift.io/shared-cpus", "openshift.io/guaranteed-cpus"} {
		if b&(4<<bit) != 0 {
			list[name] = *resource.NewQuantity(int64(b>>4)+1, resource.DecimalSI)
		}
	}
	return list
}

func text(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	data, err := json.MarshalIndent(pod, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// A pod whose own CPU request is the API server's sum loses it together with the
// requests of its containers.
func TestStrategicPatchOfPodResources(t *testing.T) {
	o := mutateOptions{target: "management"}
	o.settings.Types = map[string]bool{"management": true}
	amounts := func(cpu string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("1Gi")}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "etcd"}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "etcd", Resources: corev1.ResourceRequirements{Requests: amounts("400m")}}},
		Resources:  &corev1.ResourceRequirements{Requests: amounts("400m"), Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2Gi")}},
	}}
	mutated, _, err := o.mutate(pod)
	if err != nil {
		t.Fatal(err)
	}
	if _, left := mutated.Spec.Resources.Requests[corev1.ResourceCPU]; left {
		t.Fatalf("requests of the pod = %v; want no CPU", mutated.Spec.Resources.Requests)
	}
	patch, err := o.strategicPatch(pod, mutated)
	if err != nil {
		t.Fatal(err)
	}
	if got := kubeadmApplies(t, pod, patch); !equality.Semantic.DeepEqual(got.Spec, mutated.Spec) {
		t.Errorf("patched, the pod is (-mutated +patched):\n%s", cmp.Diff(mutated.Spec, got.Spec))
	}
}

func TestStrategicPatchNeedsNames(t *testing.T) {
	for name, containers := range map[string][]corev1.Container{
		"none": {{}},
		"same": {{Name: "a"}, {Name: "a"}},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: containers}}
		if patch, err := (&mutateOptions{}).strategicPatch(pod, pod); err == nil {
			t.Errorf("%s: patch %s, want an error", name, patch)
		}
	}
}
