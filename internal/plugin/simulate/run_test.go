package simulate_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/plugin/simulate"
)

// simulated runs pods and a trace under a configuration.
func simulated(t *testing.T, machine, yaml, pods, trace, node string) (*simulate.Document, *simulate.Objects) {
	t.Helper()
	m, err := simulate.Describe(machine)
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Parse([]byte(yaml), "config.yaml", config.Overrides{}, m)
	if err != nil {
		t.Fatal(err)
	}
	var all simulate.Objects
	for _, err := range all.Read("-", []byte(pods), "default") {
		t.Fatal(err)
	}
	o, err := all.On(node)
	if err != nil {
		t.Fatal(err)
	}
	events, err := simulate.ParseTrace([]byte(trace), "default")
	if err != nil {
		t.Fatal(err)
	}
	n, err := simulate.NewNode(c, m, o.Namespaces)
	if err != nil {
		t.Fatal(err)
	}
	steps, err := n.Run(o, events)
	if err != nil {
		t.Fatal(err)
	}
	d := n.Document("config.yaml")
	d.Steps = steps
	return d, o
}

// where returns the places of the containers, one line each.
func where(d *simulate.Document) string {
	var lines []string
	for _, c := range d.Containers {
		lines = append(lines, fmt.Sprintf("%s %s %s %s", c.Full(), c.Pool, c.CPUs, c.Code))
	}
	return strings.Join(lines, "\n")
}

const saved = `{"apiVersion":"v1","kind":"List","items":[
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"late","namespace":"ran","uid":"u2"},"status":{"startTime":"2026-02-02T00:00:00Z"},
 "spec":{"nodeName":"n1","containers":[{"name":"c","resources":{"limits":{"cpu":"2","memory":"1Gi"}}}]}},
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"first","namespace":"ran","uid":"u1"},"status":{"startTime":"2026-01-01T00:00:00Z"},
 "spec":{"nodeName":"n1","containers":[{"name":"c","resources":{"limits":{"cpu":"4","memory":"1Gi"}}}]}},
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"done","namespace":"ran","uid":"u3"},"status":{"phase":"Succeeded"},
 "spec":{"nodeName":"n1","containers":[{"name":"c"}]}},
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"elsewhere","namespace":"ran","uid":"u4"},"spec":{"nodeName":"n2","containers":[{"name":"c"}]}},
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"nowhere","namespace":"ran","uid":"u5"},"spec":{"containers":[{"name":"c"}]}},
{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","namespace":"ran","uid":"u6"},"spec":{"replicas":2,"template":{"spec":{"containers":[{"name":"c"}]}}}},
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"etcd","namespace":"kube-system","uid":"u7","annotations":{
 "kubernetes.io/config.mirror":"0123456789abcdef0123456789abcdef","kubernetes.io/config.hash":"0123456789abcdef0123456789abcdef",
 "kubernetes.io/config.source":"file","target.workload.openshift.io/management":"{\"effect\":\"PreferredDuringScheduling\"}"}},
 "spec":{"nodeName":"n1","containers":[{"name":"c"}]}}]}`

// TestSavedNode checks that a saved node has its own pods in the order of their creation. It has
// no pods that have ended, run on other nodes or are not scheduled.
func TestSavedNode(t *testing.T) {
	yaml := strings.Replace(text, "[kube-system]", "[]", 1) // static pods may
	d, o := simulated(t, "2s2c2t", yaml, saved, "", "n1")
	want := `kube-system/etcd/c management 0 Management
ran/first/c guaranteed 2-3,6-7 Exclusive
ran/late/c shared 1,4-5 Refused`
	if got := where(d); got != want {
		t.Errorf("placed\n%s\nwant\n%s", got, want)
	}
	if len(d.Refused) != 1 || d.Refused[0].Name() != "ran/late/c" || d.Refused[0].Then == "" {
		t.Errorf("refused = %+v; want ran/late/c with a reason", d.Refused)
	}
	if len(o.Notes) != 2 {
		t.Errorf("notes: %q; want one on the pod without a node, one on the Deployment", o.Notes)
	}
}

// An init container's CPUs are used again, a sidecar's are not, and a resize takes more.
func TestLifeOfAPod(t *testing.T) {
	const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"initContainers":[
{"name":"side","restartPolicy":"Always","resources":{"limits":{"cpu":"1","memory":"1Gi"}}},
{"name":"init","resources":{"limits":{"cpu":"2","memory":"1Gi"}}}],
"containers":[{"name":"app","resources":{"limits":{"cpu":"2","memory":"1Gi"}}}]}}`
	d, _ := simulated(t, "2s4c", text, pod, `{"at":"1m","resize":"p","container":"app","cpu":"3"}`, "")
	sizes := map[string]int{}
	for _, c := range d.Containers {
		if c.Exclusive {
			sizes[c.Name] = c.CPUs.Len()
		}
	}
	if fmt.Sprint(sizes) != "map[app:3 side:1]" || len(d.Refused) > 0 {
		t.Errorf("own CPUs are %v, refused %+v; want 1 of side and 3 of app", sizes, d.Refused)
	}
	if len(d.Steps) != 1 || len(d.Steps[0].Containers) != 1 || d.Steps[0].Containers[0].Name != "app" {
		t.Errorf("steps: %+v; want one that changes app", d.Steps)
	}
}

// All that comes of one input is the same each time, also where maps are in between.
func TestDeterministic(t *testing.T) {
	const trace = `{"at":"1m","offline":"4-5"}
{"at":"2m","remove":"ran/first"}
{"at":"30m","online":"4-5"}`
	first := ""
	for range 5 {
		d, _ := simulated(t, "2s2c2t", text, saved, trace, "n1")
		other, _ := simulated(t, "2s2c2t", strings.Replace(text, "floor: 2", "floor: 4", 1), saved, trace, "n1")
		got, err := json.Marshal(simulate.Compare(d, other))
		if err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = string(got)
		}
		if string(got) != first {
			t.Fatalf("documents differ:\n%s\nand\n%s", first, got)
		}
	}
}

func TestTraceErrors(t *testing.T) {
	for line, want := range map[string]string{
		`{"at":"1m"}`:                                                          "line 1: 0 of add",
		`{"at":"1m","remove":"a","online":"1"}`:                                "line 1: 2 of add",
		`{"at":"soon","remove":"a"}`:                                           `at "soon" is no time`,
		`{"at":"-1s","remove":"a"}`:                                            `at "-1s" is no time`,
		`{"at":"1s","remove":"a","cpu":"1"}`:                                   "container and cpu are for resize",
		`{"at":"1s","resize":"a","container":"c"}`:                             `cpu ""`,
		`{"at":"1s","resize":"a","container":"c","cpu":"1e-999999999"}`:        `cpu "1e-999999999"; want`,
		`{"at":"1s","offline":"x"}`:                                            "line 1: ",
		`{"at":"1s","add":""}`:                                                 "line 1: ",
		`{"at":"1s","add":{"kind":"Pod"}}`:                                     "apiVersion is missing",
		`{"at":"1s","add":{"apiVersion":"v1","kind":"Secret"}}`:                "want the name of a pod",
		`{"at":"1s","stop":"a"}`:                                               `unknown field "stop"`,
		`{"at":"1s","remove":"a"} {}`:                                          "more than one object",
		"\n{\"at\":\"2s\",\"remove\":\"a\"}\n{\"at\":\"1s\",\"remove\":\"a\"}": "line 3: at 1s is before",
	} {
		if _, err := simulate.ParseTrace([]byte(line), "default"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", line, err, want)
		}
	}
}

// An impossible event in a trace is an error that names the event.
func TestTraceThatCannotHappen(t *testing.T) {
	m, err := simulate.Describe("2c")
	if err != nil {
		t.Fatal(err)
	}
	c := config.Default()
	for _, line := range []string{
		`{"at":"1s","add":"a"}`, `{"at":"1s","remove":"a"}`, `{"at":"1s","resize":"a","container":"c","cpu":"1"}`,
		`{"at":"1s","offline":"2"}`, `{"at":"1s","offline":"0-1"}`,
	} {
		n, err := simulate.NewNode(&c, m, nil)
		if err != nil {
			t.Fatal(err)
		}
		events, err := simulate.ParseTrace([]byte(line), "default")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.Run(&simulate.Objects{}, events); err == nil || !strings.HasPrefix(err.Error(), "event 1, at 1s, ") {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestReadErrors(t *testing.T) {
	for text, want := range map[string]string{
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{}}`:                                                                                                                                                        "spec.containers: is empty",
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c"},{"name":"c"}]}}`:                                                                                                                `container "c" occurs twice`,
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"replicas":-1,"template":{"spec":{"containers":[{"name":"c"}]}}}}`:                                                                             `"-1" is no number of pods`,
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"replicas":999999,"template":{"spec":{"containers":[{"name":"c"}]}}}}`:                                                                         "999999 pods",
		"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nx: &x {replicas: \"3\"}\nspec: {<<: *x, template: {spec: {containers: [{name: c}]}}}":                                                                          "replicas",
		`{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"c"},"spec":{"devices":{"requests":[{"name":"r"}]}}}`:                                                                                         `request "r" needs exactly or firstAvailable; write one of the two`,
		`{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"c"},"spec":{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"x"},"firstAvailable":[{"name":"a","deviceClassName":"x"}]}]}}}`: `request "r" needs exactly or firstAvailable; write one of the two`,
		`{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"c"},"spec":{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"x","count":-1}}]}}}`:                                            `request "r" has count -1; write 1 or more`,
		`{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"c"},"spec":{"devices":{"requests":[{"name":"r","firstAvailable":[{"name":"a","deviceClassName":"x","count":-2}]}]}}}`:                        `request "r/a" has count -2; write 1 or more`,
	} {
		var o simulate.Objects
		errs := o.Read("-", []byte(text), "default")
		if !slices.ContainsFunc(errs, func(err error) bool { return strings.Contains(err.Error(), want) }) {
			t.Errorf("%s: %v; want %s", text, errs, want)
		}
	}
}

// TestUnreadableClaims checks that a pod does not run if its claim, or its template, is not valid.
func TestUnreadableClaims(t *testing.T) {
	for entry, want := range map[string]string{
		"resourceClaimName: c":         "ResourceClaim default/c is not valid; correct it",
		"resourceClaimTemplateName: t": "ResourceClaimTemplate default/t is not valid; correct it",
		"resourceClaimName: d":         "the files have no ResourceClaim default/d; add it with -f",
	} {
		text := `apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: c}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: exclusive-cpus.cpupoold.io, count: -1}}]}}
---
apiVersion: resource.k8s.io/v1beta1
kind: ResourceClaimTemplate
metadata: {name: t}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  resourceClaims: [{name: rt, ` + entry + `}]
  containers: [{name: c, resources: {claims: [{name: rt}]}}]
`
		var all simulate.Objects
		if errs := all.Read("-", []byte(text), "default"); len(errs) != 2 {
			t.Errorf("errors %v; want one for the claim, and one for the template", errs)
		}
		d := onNode(t, map[string]string{"machine": "4c", "config.yaml": "apiVersion: " + config.APIVersion + "\nkind: " + config.Kind + "\n"}, &all, "")
		if len(d.Refused) != 1 || d.Refused[0].Text != want || len(d.Containers) != 0 {
			t.Errorf("%s: refused %v, containers %v; want %s", entry, d.Refused, d.Containers, want)
		}
	}
}

// TestAutoStays checks that a pool with cpus: auto keeps its CPUs while one of them is offline, as
// in the daemon.
func TestAutoStays(t *testing.T) {
	yaml := "apiVersion: " + config.APIVersion + "\nkind: " + config.Kind + "\npartitions: [{type: management, cpus: auto}]\n"
	for trace, want := range map[string]string{"": "0-1", `{"at":"1s","offline":"1"}`: "0"} {
		d, _ := simulated(t, "8c", yaml, "", trace, "")
		if got := d.Pools[0]; got.CPUs.String() != want {
			t.Errorf("after the trace %q pool %s has CPUs %s; want %s", trace, got.Name, got.CPUs, want)
		}
	}
}
