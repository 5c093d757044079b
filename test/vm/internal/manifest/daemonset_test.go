package manifest_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

const deployed = "../../../../deploy/"

func TestReadDaemonSet(t *testing.T) {
	const text = `kind: Namespace
metadata: {name: ns}
---
kind: ConfigMap
data: {config.yaml: "shared: {}"}
---
kind: DaemonSet
metadata: {name: agent, namespace: ns}
spec:
  template:
    metadata: {labels: {a: b}}
    spec:
      serviceAccountName: agent
      automountServiceAccountToken: true
      hostPID: true
      containers:
      - name: app
        volumeMounts:
        - {name: config, mountPath: /etc/agent, readOnly: true}
        - {name: run, mountPath: /run}
      volumes:
      - {name: config, configMap: {name: agent}}
      - {name: run, hostPath: {path: /run}}
`
	const want = `apiVersion: v1
kind: Pod
metadata:
    labels:
        a: b
    name: agent
    namespace: ns
spec:
    containers:
        - name: app
          volumeMounts:
            - mountPath: /etc/agent
              name: config
              readOnly: true
            - mountPath: /run
              name: run
    hostPID: true
    volumes:
        - hostPath:
            path: /etc/agent
            type: Directory
          name: config
        - hostPath:
            path: /run
          name: run
`
	set, err := manifest.ReadDaemonSet([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(manifest.DaemonSet{Pod: []byte(want), Configuration: "shared: {}"}, set); d != "" {
		t.Errorf("DaemonSet (-want +got):\n%s\n%s", d, set.Pod)
	}
}

func TestReadDaemonSetRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":      "",
		"no YAML":      "a: [",
		"no template":  "kind: DaemonSet\nmetadata: {name: a}\n---\nkind: ConfigMap\ndata: {config.yaml: x}\n",
		"no ConfigMap": "kind: DaemonSet\nspec: {template: {metadata: {}, spec: {}}}\n",
	} {
		if set, err := manifest.ReadDaemonSet([]byte(text)); err == nil {
			t.Errorf("%s: %s; want an error", name, set.Pod)
		}
	}
}

// TestDeployedDaemonSet checks the statements in the comments of the file.
func TestDeployedDaemonSet(t *testing.T) {
	var text []byte
	for _, name := range []string{"config.yaml", "daemonset.yaml"} {
		data, err := os.ReadFile(deployed + name)
		if err != nil {
			t.Fatal(err)
		}
		text = slices.Concat(text, []byte("\n---\n"), data)
	}
	set, err := manifest.ReadDaemonSet(text)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := config.Parse([]byte(set.Configuration), "config.yaml", config.Overrides{}, nil); err != nil {
		t.Errorf("configuration in the ConfigMap: %v", err)
	}
	var pod struct {
		Metadata struct{ Namespace string }
		Spec     struct {
			Containers []struct {
				Image        string
				VolumeMounts []struct {
					Name        string
					Path        string `yaml:"mountPath"`
					Propagation string `yaml:"mountPropagation"`
				} `yaml:"volumeMounts"`
			}
			Volumes []struct {
				Name     string
				HostPath struct{ Path string } `yaml:"hostPath"`
			}
		}
	}
	if err := yaml.Unmarshal(set.Pod, &pod); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(set.Configuration, pod.Metadata.Namespace) {
		t.Errorf("the daemon's own namespace %s has no management pool in its configuration", pod.Metadata.Namespace)
	}
	paths := make(map[string]string)
	for _, v := range pod.Spec.Volumes {
		paths[v.Name] = v.HostPath.Path
	}
	for _, m := range pod.Spec.Containers[0].VolumeMounts {
		if paths[m.Name] != m.Path {
			t.Errorf("volume %s is %q on the host and %q inside; want the same", m.Name, paths[m.Name], m.Path)
		}
		// Below these are the mounts of other pods: a copy that outlives the pod would keep its file systems and network namespace.
		if (m.Path == "/run" || m.Path == "/var/lib/kubelet") && m.Propagation != "HostToContainer" {
			t.Errorf("mount propagation of %s is %q; want HostToContainer", m.Path, m.Propagation)
		}
	}
	makefile, err := os.ReadFile("../../../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	if image := pod.Spec.Containers[0].Image; !strings.Contains(string(makefile), image) {
		t.Errorf("make image does not make %s", image)
	}
}
