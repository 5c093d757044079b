package manifest_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

func TestYAML(t *testing.T) {
	p := manifest.Pod{
		Name: "agent", Namespace: "kube-system", Annotations: manifest.Management(map[string]string{"app": "-5"}),
		Containers: []manifest.Container{{Name: "app", CPU: "100m", Memory: "20Mi", Limited: true}, {Name: "side"}},
	}
	const want = `apiVersion: v1
kind: Pod
metadata:
    annotations:
        resources.workload.openshift.io/app: '{"cpushares":-5}'
        target.workload.openshift.io/management: '{"effect":"PreferredDuringScheduling"}'
    name: agent
    namespace: kube-system
spec:
    containers:
        - args:
            - pause
          image: localhost/cpupoold/work:1
          imagePullPolicy: Never
          name: app
          resources:
            limits:
                cpu: 100m
                memory: 20Mi
            requests:
                cpu: 100m
                memory: 20Mi
        - args:
            - pause
          image: localhost/cpupoold/work:1
          imagePullPolicy: Never
          name: side
    enableServiceLinks: false
    hostNetwork: true
    terminationGracePeriodSeconds: 1
`
	got, err := p.YAML()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Errorf("manifest (-want +got):\n%s", d)
	}
}

func TestYAMLDevices(t *testing.T) {
	p := manifest.Pod{Name: "du", Namespace: "default", Containers: []manifest.Container{
		{Name: "app", CPU: "2", Memory: "20Mi", Limited: true, Extra: map[string]string{"example.org/nic": "1"}},
		{Name: "side", Extra: map[string]string{"example.org/nic": "1"}},
	}}
	const want = `        - args:
            - pause
          image: localhost/cpupoold/work:1
          imagePullPolicy: Never
          name: app
          resources:
            limits:
                cpu: "2"
                example.org/nic: "1"
                memory: 20Mi
            requests:
                cpu: "2"
                example.org/nic: "1"
                memory: 20Mi
        - args:
            - pause
          image: localhost/cpupoold/work:1
          imagePullPolicy: Never
          name: side
          resources:
            limits:
                example.org/nic: "1"
            requests:
                example.org/nic: "1"
`
	got, err := p.YAML()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(got), want) {
		t.Errorf("manifest lacks what is wanted (-want +got):\n%s", cmp.Diff(want, string(got)))
	}
}
