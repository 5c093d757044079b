package deploy

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"log" //nolint:depguard // it is what helm writes to
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/cpupoold/cpupoold/internal/config"
)

// TestMain silences the warnings of helm's loader about the chart's symbolic links, and
// adds the kinds of the Prometheus operator to the scheme.
func TestMain(m *testing.M) {
	if err := monitoringv1.AddToScheme(scheme.Scheme); err != nil {
		panic(err)
	}
	log.SetOutput(io.Discard)
	m.Run()
}

// plain is the directory of the plain manifests.
const plain = "../../deploy/"

// manifests are objects by kind, namespace and name.
type manifests map[string]runtime.Object

// parse decodes the documents of a text as a strict API server does: an unknown or
// repeated field is an error. So is an object that occurs twice.
func parse(t *testing.T, text []byte) manifests {
	t.Helper()
	strict := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	all := manifests{}
	for documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(bytes.TrimSpace(document)) == 0 {
			continue
		}
		object, kind, err := strict.Decode(document, nil, nil)
		if err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		m, err := meta.Accessor(object)
		if err != nil {
			t.Fatal(err)
		}
		key := strings.Join([]string{kind.Kind, m.GetNamespace(), m.GetName()}, " ")
		if all[key] != nil {
			t.Errorf("%s exists twice; want once", key)
		}
		all[key] = object
	}
}

// files are the objects of files below deploy/.
func files(t *testing.T, names ...string) manifests {
	t.Helper()
	var text []byte
	for _, name := range names {
		data, err := os.ReadFile(plain + name)
		if err != nil {
			t.Fatal(err)
		}
		text = slices.Concat(text, []byte("\n---\n"), data)
	}
	return parse(t, text)
}

// same reports objects that are missing, too many or different.
func same(t *testing.T, want, got manifests) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("objects (-plain manifests +rendered):\n%s", d)
	}
}

// of are the objects of a type.
func of[T runtime.Object](all manifests) []T {
	var found []T
	for _, o := range all {
		if o, ok := o.(T); ok {
			found = append(found, o)
		}
	}
	return found
}

// daemonSet returns the DaemonSet of namespace cpupoold with this name.
func daemonSet(t *testing.T, all manifests, name string) *appsv1.DaemonSet {
	t.Helper()
	set, ok := all["DaemonSet cpupoold "+name].(*appsv1.DaemonSet)
	if !ok {
		t.Fatalf("DaemonSet %s is missing", name)
	}
	return set
}

// configurations checks that each DaemonSet mounts a directory with a configuration that
// the daemon accepts, and returns them by the DaemonSet's name.
func configurations(t *testing.T, all manifests) map[string]*config.Config {
	t.Helper()
	found := map[string]*config.Config{}
	for _, set := range of[*appsv1.DaemonSet](all) {
		for _, v := range set.Spec.Template.Spec.Volumes {
			if v.ConfigMap == nil {
				continue
			}
			source, ok := all["ConfigMap cpupoold "+v.ConfigMap.Name].(*corev1.ConfigMap)
			if !ok {
				t.Errorf("DaemonSet %s: ConfigMap %s is missing", set.Name, v.ConfigMap.Name)
				continue
			}
			c, err := config.Parse([]byte(source.Data["config.yaml"]), v.ConfigMap.Name, config.Overrides{}, nil)
			if err != nil {
				t.Errorf("DaemonSet %s: %v", set.Name, err)
			}
			found[set.Name] = c
		}
		for _, c := range slices.Concat(set.Spec.Template.Spec.InitContainers, set.Spec.Template.Spec.Containers) {
			for _, m := range c.VolumeMounts {
				if m.SubPath != "" || m.SubPathExpr != "" {
					t.Errorf("DaemonSet %s: %s is mounted as a single file, which the kubelet never updates; want a directory", set.Name, m.MountPath)
				}
			}
		}
	}
	return found
}

// disjoint checks that no pod is of two DaemonSets, and that no node is for two.
func disjoint(t *testing.T, sets []*appsv1.DaemonSet) {
	t.Helper()
	apart := func(a, b map[string]string) bool {
		for label, value := range a {
			if other, ok := b[label]; ok && other != value {
				return true
			}
		}
		return false
	}
	for i, a := range sets {
		for label, value := range a.Spec.Selector.MatchLabels {
			if a.Spec.Template.Labels[label] != value {
				t.Errorf("DaemonSet %s does not select its pods: label %s differs", a.Name, label)
			}
		}
		for _, b := range sets[i+1:] {
			if !apart(a.Spec.Selector.MatchLabels, b.Spec.Selector.MatchLabels) {
				t.Errorf("%s and %s select the same pods; want distinct ones", a.Name, b.Name)
			}
			if !apart(a.Spec.Template.Spec.NodeSelector, b.Spec.Template.Spec.NodeSelector) {
				t.Errorf("%s and %s may run on the same node; want distinct ones", a.Name, b.Name)
			}
		}
	}
}
