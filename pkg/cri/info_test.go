package cri

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/iotest"
)

// FuzzDocument checks that the boundaries of pieces do not change the decoded document, and that
// decoded values are in range.
func FuzzDocument(f *testing.F) {
	for _, doc := range []string{
		``, `null`, `{}`, `[]`, `{"pid":1`, `{"pid":-1}`, `{"pid":1e99}`, `{"pid":"1"}`,
		`{"sandboxID":"s","pid":4711,"removing":false,"config":{"metadata":{"name":"c"},"linux":{"resources":{"cpu_shares":1024}}},"runtimeSpec":{"ociVersion":"1.2.1","linux":{"cgroupsPath":"kubepods-pod1.slice:cri-containerd:abc","resources":{"cpu":{"shares":1024,"quota":100000,"period":100000,"cpus":"0-1"}}}}}`,
		`{"pid":12,"processStatus":"running","config":{"linux":{"cgroup_parent":"kubepods-pod1.slice","resources":{"cpu_shares":2048,"cpu_quota":-1}}},"runtimeSpec":{"linux":{"cgroupsPath":"kubepods-pod1.slice:cri-containerd:def"}},"resources":{"linux":{"cpu_shares":4096}}}`,
		`{"image":"pause","pid":9,"runtimeSpec":{"annotations":{"io.kubernetes.cri-o.CgroupParent":"kubepods-pod1.slice","io.kubernetes.cri-o.PodLinuxResources":"{\"cpu_shares\":102}"},"linux":{"cgroupsPath":"kubepods-pod1.slice:crio:def"}}}`,
		`{"runtimeSpec":{"annotations":{"pod-linux-resources.crio.io":"garbage"}}}`,
		`{"PID":7,"pid":8,"\u0070id":9,"runtimeSpec":{"linux":[{"pid":1}]},"resources":null}x`, `{"a":[1,{"b":"\u12x"}]}`, `{"a":"\ud800\n","pid":-0.0e5}`, `{"pid":1,}`, `[1,,2]`, `{"pid":01}`, "{\"a\":\"\t\"}",
		`{"runtimeSpec":{"process":{"env":["A=1","OPENSHIFT_SHARED_CPUS=2-3",""]}}}`, `{"runtimeSpec":{"process":{"env":[1]}}}`,
	} {
		f.Add(doc)
	}
	f.Fuzz(func(t *testing.T, doc string) {
		want := string(trimDocument(strings.NewReader(doc)))
		i, _, err := parseInfo(want)
		if got := string(trimDocument(iotest.OneByteReader(strings.NewReader(doc)))); got != want && (err == nil || !strings.HasPrefix(got, notJSON)) {
			t.Errorf("%q in pieces: %s; want %s", doc, got, want)
		}
		if valid := json.Valid([]byte(doc)); err == nil && !valid {
			t.Errorf("%q is decoded; want an error, because it is no JSON", doc)
		}
		if err != nil {
			return
		}
		parent, r, field, err := i.podConfig(nil)
		if (err != nil) != (field != "") || err != nil && r != (Resources{}) {
			t.Errorf("podConfig of %q = %q, %+v, %q, %v", doc, parent, r, field, err)
		}
		if r.Shares > 1<<63-1 {
			t.Errorf("podConfig of %q: shares = %d; want a positive number", doc, r.Shares)
		}
	})
}

// In-place resize (KEP-1287) does not change the sandbox's configuration and adds the
// new total next to it.
func TestPodResourcesAfterResize(t *testing.T) {
	t.Parallel()
	i, _, err := parseInfo(`{"config":{"linux":{"resources":{"cpu_shares":1024}}},"resources":{"linux":{"cpu_shares":2048}}}`)
	if err != nil {
		t.Fatal(err)
	}
	if _, r, _, err := i.podConfig(nil); err != nil || r.Shares != 2048 {
		t.Errorf("podConfig: shares %d, %v; want 2048", r.Shares, err)
	}
}
