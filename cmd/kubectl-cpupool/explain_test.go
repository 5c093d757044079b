package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	corev1 "k8s.io/api/core/v1"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/plugin/manifest"
	"github.com/cpupoold/cpupoold/internal/plugin/simulate"
)

// mistakes returns the pods of the fixture by name: YAML, and the sentence.
func mistakes(t *testing.T) map[string][2]string {
	t.Helper()
	archive, err := txtar.ParseFile("../../internal/verdict/testdata/mistakes.txtar")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][2]string{}
	for _, f := range archive.Files {
		name, kind, _ := strings.Cut(f.Name, ".")
		m := all[name]
		switch kind {
		case "yaml":
			m[0] = string(f.Data)
		case "want":
			m[1] = strings.TrimSpace(string(f.Data))
		}
		all[name] = m
	}
	return all
}

// hasSentence reports whether a subject has the sentence, and all have a fix.
func hasSentence(e *inspect.Explanation, want string) bool {
	return e != nil && slices.ContainsFunc(e.Subjects, func(s inspect.Subject) bool { return s.Sentence == want && s.Fix != "" })
}

// TestSameSentence checks that lint, simulate --explain and explain have the same sentence about a
// mistake, with and without an answer of the daemon.
func TestSameSentence(t *testing.T) {
	for name, m := range mistakes(t) {
		t.Run(name, func(t *testing.T) {
			text, want := m[0], m[1]
			file := filepath.Join(t.TempDir(), "pod.yaml")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			code, out, errs := kubectl(t, "lint", "-f", file)
			if code != exitError || strings.Count(out, "\n") != 1 || !strings.Contains(out, ": "+want+" (") {
				t.Errorf("lint: exit %d, %s\n%swant %s", code, errs, out, want)
			}

			objects, bad := manifest.Objects([]byte(text))
			if len(bad) > 0 {
				t.Fatal(bad)
			}
			pod := *objects[0].Pod
			_, out, errs = kubectl(t, "simulate", "--topology", "1s8c1t", "-f", file, "-o", "json", "--explain", pod.Namespace+"/"+pod.Name)
			var d simulate.Document
			if err := json.Unmarshal([]byte(out), &d); err != nil || !hasSentence(d.Explanation, want) {
				t.Fatalf("simulate: %v, %s\n%+v\nwant %s", err, errs, d.Explanation, want)
			}

			// The daemon sends places, problems and sentences that are less specific.
			e := d.Explanation
			for i := range e.Subjects {
				e.Subjects[i].Sentence, e.Subjects[i].Fix = "from the daemon", ""
			}
			facts := simulate.Facts(&pod, 0)
			facts.Types = []string{"management"}
			if compose(e, facts); !hasSentence(e, want) {
				t.Errorf("explain with the daemon's answer: %+v\nwant %s", e.Subjects, want)
			}

			// Without a daemon, a namespace that the user may not read is taken to allow the type.
			if name == "namespace" {
				return
			}
			config := apiServer(t, map[string]string{"/api/v1/namespaces/" + pod.Namespace + "/pods/" + pod.Name: object(t, &pod)})
			code, out, errs = kubectl(t, "explain", pod.Name, "-n", pod.Namespace, "--kubeconfig", config, "-o", "json")
			var alone inspect.Explanation
			if err := json.Unmarshal([]byte(out), &alone); err != nil || code != exitOK || !hasSentence(&alone, want) || len(alone.Notes) != 1 {
				t.Errorf("explain without a daemon: exit %d, %v, %s\n%s\nwant %s", code, err, errs, out, want)
			}
		})
	}
}

// TestExplainImpossible checks that an impossible amount of CPU is an error.
func TestExplainImpossible(t *testing.T) {
	config := apiServer(t, map[string]string{"/api/v1/namespaces/ran/pods/du-0": `{"metadata":{"name":"du-0","namespace":"ran"},
"spec":{"containers":[{"name":"du","resources":{"limits":{"cpu":"2Gi","memory":"1Gi"}}}]}}`})
	code, out, errs := kubectl(t, "explain", "du-0", "-n", "ran", "--kubeconfig", config)
	const want = "kubectl-cpupool: pod ran/du-0: spec.containers[du].resources.limits.cpu: 2Gi is more than 8192 CPUs"
	if code != exitError || out != "" || !strings.HasPrefix(errs, want) {
		t.Errorf("exit %d, %s\nerrors %s\nwant %s", code, out, errs, want)
	}
}

// TestExplainClaims checks the sentences about a pod without a node that uses ResourceClaims, and the note
// without the right to read them.
func TestExplainClaims(t *testing.T) {
	lists := map[string]string{"/api/v1/namespaces/ran/pods/du-0": `{"metadata":{"name":"du-0","namespace":"ran","uid":"u"},"spec":{
"resourceClaims":[{"name":"cpus","resourceClaimTemplateName":"du"},{"name":"shared","resourceClaimName":"one"},{"name":"gpu","resourceClaimTemplateName":"gpu"}],"containers":[
{"name":"rt","resources":{"requests":{"cpu":"1m"},"claims":[{"name":"cpus"}]}},
{"name":"l1","resources":{"requests":{"cpu":"1m"},"claims":[{"name":"shared"},{"name":"gpu"}]}},
{"name":"l2","resources":{"requests":{"cpu":"1m"},"claims":[{"name":"shared"}]}},
{"name":"oam","resources":{"requests":{"cpu":"1"},"claims":[{"name":"gpu"}]}}]},
"status":{"phase":"Pending","qosClass":"Burstable"}}`,
		"/apis/resource.k8s.io/v1/namespaces/ran/resourceclaimtemplates/du":  `{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaimTemplate","metadata":{"name":"du","namespace":"ran"},"spec":{"spec":{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"exclusive-cpus.cpupoold.io"}}]}}}}`,
		"/apis/resource.k8s.io/v1/namespaces/ran/resourceclaims/one":         `{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"one","namespace":"ran"},"spec":{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"mine"}}]}}}`,
		"/apis/resource.k8s.io/v1/namespaces/ran/resourceclaimtemplates/gpu": `{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaimTemplate","metadata":{"name":"gpu","namespace":"ran"},"spec":{"spec":{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"gpu"}}]}}}}`,
		"/apis/resource.k8s.io/v1/deviceclasses": "DeviceClassList\n" +
			`{"metadata":{"name":"mine"},"spec":{"selectors":[{"cel":{"expression":"device.driver == \"cpu.cpupoold.io\""}}]}}`,
	}
	code, out, errs := kubectl(t, "explain", "du-0", "-n", "ran", "--kubeconfig", apiServer(t, lists))
	for _, want := range []string{
		"container rt of du-0 would have exclusive CPUs, because it uses ResourceClaim cpus.",
		"container l1 of du-0 would run on exclusive CPUs that containers of its pod share, because it uses ResourceClaim one.",
		"container l2 of du-0 would run on exclusive CPUs that containers of its pod share, because it uses ResourceClaim one.",
		"du-0 would run in the shared pool, because",
	} {
		if code != exitOK || !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("exit %d, %s; want %s in\n%s", code, errs, want, out)
		}
	}
	lists["/apis/resource.k8s.io/v1/deviceclasses"] = "404"
	if _, out, _ := kubectl(t, "explain", "du-0", "-n", "ran", "--kubeconfig", apiServer(t, lists)); strings.Contains(out, "ResourceClaim") {
		t.Errorf("without the API, the answer is\n%s", out)
	}
	lists["/apis/resource.k8s.io/v1/deviceclasses"] = "DeviceClassList\n"
	delete(lists, "/apis/resource.k8s.io/v1/namespaces/ran/resourceclaimtemplates/du")
	code, out, errs = kubectl(t, "explain", "du-0/rt", "-n", "ran", "--kubeconfig", apiServer(t, lists))
	if code != exitOK || !strings.Contains(out, "would run in the shared pool") || !strings.Contains(out, "note: the pod's ResourceClaims are not known: read ") {
		t.Errorf("without the right: exit %d, %s; want the shared pool and a note in\n%s", code, errs, out)
	}
}

// TestExplainPending checks that the sentence about a pod without a node is conditional, and that the
// note has the scheduler's reason.
func TestExplainPending(t *testing.T) {
	config := apiServer(t, map[string]string{"/api/v1/namespaces/ran/pods/du-0": `{"metadata":{"name":"du-0","namespace":"ran","uid":"u"},
"spec":{"containers":[{"name":"du","resources":{"limits":{"cpu":"2","memory":"1Gi"}}}]},
"status":{"phase":"Pending","qosClass":"Guaranteed","conditions":[{"type":"PodScheduled","status":"False","message":"0/1 nodes are available: 1 Insufficient cpu."}]}}`})
	code, out, errs := kubectl(t, "explain", "du-0", "-n", "ran", "--kubeconfig", config)
	const want = `container du of du-0 would have exclusive CPUs of the guaranteed pool, because it requests 2 whole CPUs in a Guaranteed pod.
note: there is no answer of the daemon: the pod has no node yet (scheduler: 0/1 nodes are available: 1 Insufficient cpu); this answer follows from the pod's spec, and free CPUs are unknown
`
	if code != exitOK || out != want {
		t.Errorf("exit %d, %s\n%s\nwant\n%s", code, errs, out, want)
	}
}

// TestExplainFromShared checks the answer without a daemon for a node with exclusive CPUs in the shared pool. No resource shows these CPUs.
func TestExplainFromShared(t *testing.T) {
	config := apiServer(t, map[string]string{
		"/api/v1/namespaces/ran/pods/du-0": `{"metadata":{"name":"du-0","namespace":"ran","uid":"u"},
"spec":{"nodeName":"edge-1","containers":[{"name":"du","resources":{"limits":{"cpu":"2","memory":"1Gi"}}}]},"status":{"phase":"Running","qosClass":"Guaranteed"}}`,
		"/api/v1/nodes/edge-1": `{"metadata":{"name":"edge-1"},"status":{"capacity":{"cpu":"8","openshift.io/shared-cpus":"6k"},"allocatable":{"cpu":"8","openshift.io/shared-cpus":"6k"}}}`,
	})
	code, out, errs := kubectl(t, "explain", "du-0", "-n", "ran", "--kubeconfig", config)
	const sentence = "container du of du-0 has exclusive CPUs of the guaranteed pool, because it requests 2 whole CPUs in a Guaranteed pod.\n"
	const note = "its node's resources, and free CPUs are unknown, as is whether the node has a guaranteed pool\n"
	if code != exitOK || !strings.HasPrefix(out, sentence) || !strings.HasSuffix(out, note) {
		t.Errorf("exit %d, %s\n%s\nwant %s… %s", code, errs, out, sentence, note)
	}
}

// TestExplainNotCreated checks that an answer about the pause container alone, and an answer that the daemon does not know the pod, are no
// explanations of the pod.
func TestExplainNotCreated(t *testing.T) {
	subject := func(code string) inspect.Subject {
		return inspect.Subject{Container: inspect.Container{Code: code}}
	}
	refused := errors.New("pods is forbidden")
	for name, c := range map[string]struct {
		subjects []inspect.Subject
		err      error
		want     error
	}{
		"placed":     {[]inspect.Subject{subject("Pause"), subject("Exclusive")}, nil, nil},
		"pause only": {[]inspect.Subject{subject("Pause")}, nil, errNotCreated},
		"unknown":    {nil, errors.New(`node a: cpupoold: "u/app" names no pod, container or unit that the daemon places`), errNotCreated},
		"no right":   {nil, refused, refused},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := created(&inspect.Explanation{Subjects: c.subjects}, c.err, "u/app")
			if !errors.Is(err, c.want) || (e == nil) != (c.want != nil) {
				t.Errorf("created = %v, %v; want error %v", e, err, c.want)
			}
		})
	}
}

// object returns a pod as the API server sends it.
func object(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	running := pod.DeepCopy()
	running.UID, running.Spec.NodeName = "u", "edge-1"
	data, err := json.Marshal(running)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
