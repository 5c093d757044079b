package cri

import (
	"reflect"
	"testing"
)

func FuzzParseInfo(f *testing.F) {
	for _, doc := range []string{
		``, `null`, `{}`, `[]`, `{"pid":1`, `{"pid":-1}`, `{"pid":1e99}`, `{"pid":"1"}`,
		`{"sandboxID":"s","pid":4711,"removing":false,"config":{"metadata":{"name":"c"},"linux":{"resources":{"cpu_shares":1024}}},"runtimeSpec":{"ociVersion":"1.2.1","linux":{"cgroupsPath":"kubepods-pod1.slice:cri-containerd:abc","resources":{"cpu":{"shares":1024,"quota":100000,"period":100000,"cpus":"0-1"}}}}}`,
		`{"pid":12,"processStatus":"running","config":{"linux":{"cgroup_parent":"kubepods-pod1.slice","resources":{"cpu_shares":2048,"cpu_quota":-1}}},"runtimeSpec":{"linux":{"cgroupsPath":"kubepods-pod1.slice:cri-containerd:def"}},"resources":{"linux":{"cpu_shares":4096}}}`,
		`{"image":"pause","pid":9,"runtimeSpec":{"annotations":{"io.kubernetes.cri-o.CgroupParent":"kubepods-pod1.slice","io.kubernetes.cri-o.PodLinuxResources":"{\"cpu_shares\":102}"},"linux":{"cgroupsPath":"kubepods-pod1.slice:crio:def"}}}`,
		`{"runtimeSpec":{"annotations":{"pod-linux-resources.crio.io":"garbage"}}}`,
		`{"runtimeSpec":{"process":{"env":["A=1","OPENSHIFT_SHARED_CPUS=2-3",""]}}}`, `{"runtimeSpec":{"process":{"env":[1]}}}`,
	} {
		f.Add(doc)
	}
	f.Fuzz(func(t *testing.T, doc string) {
		i, field, err := parseInfo(doc)
		if err != nil {
			if !reflect.ValueOf(i).IsZero() {
				t.Errorf("parseInfo(%q) = %+v and an error", doc, i)
			}
			return
		}
		if field != "" {
			t.Errorf("parseInfo(%q): field %q without an error", doc, field)
		}
		parent, r, field, err := i.podConfig(nil)
		if (err != nil) != (field != "") || err != nil && r != (Resources{}) {
			t.Errorf("podConfig of %q = %q, %+v, %q, %v", doc, parent, r, field, err)
		}
		if r.Shares > 1<<63-1 {
			t.Errorf("podConfig of %q: shares %d", doc, r.Shares)
		}
	})
}

// In-place resize (KEP-1287) leaves the sandbox's configuration alone and puts
// the new total beside it.
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
