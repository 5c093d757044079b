package cri

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// parseWhole decodes a whole document with encoding/json, as the reference for trimDocument and parseInfo.
func parseWhole(doc string) (i info, field string, err error) {
	if doc == "" {
		return info{}, "", errMissing
	}
	if err := json.Unmarshal([]byte(doc), &i); err != nil {
		if wrong, is := errors.AsType[*json.UnmarshalTypeError](err); is {
			field = wrong.Field
		}
		return info{}, field, err
	}
	return i, "", nil
}

// inLists matches a list with null. encoding/json keeps the former string of a list for it if a list comes twice.
var inLists = regexp.MustCompile(`[\[,]\s*null`)

// FuzzDocument checks that the used part of a document is decoded like the whole document, wherever
// its pieces end.
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
		if len(doc) > maxText || inLists.MatchString(doc) {
			return
		}
		used := string(trimDocument(iotest.OneByteReader(strings.NewReader(doc))))
		i, field, err := parseInfo(used)
		if err != nil && strings.Contains(err.Error(), "a number has more") {
			return
		}
		want, wantField, wantErr := parseWhole(doc)
		if (err != nil) != (wantErr != nil) || field != wantField {
			t.Errorf("%q: field %q, %v; want field %q, %v", doc, field, err, wantField, wantErr)
		}
		if got, want := SharedCPUs(i.RuntimeSpec.Process.Env), SharedCPUs(want.RuntimeSpec.Process.Env); got != want {
			t.Errorf("%q: shared CPUs %q; want %q", doc, got, want)
		}
		i.RuntimeSpec.Process.Env, want.RuntimeSpec.Process.Env = nil, nil
		for key := range want.RuntimeSpec.Annotations {
			if _, kept := i.RuntimeSpec.Annotations[key]; !kept && !isPodConfig(key) {
				delete(want.RuntimeSpec.Annotations, key)
			}
		}
		if diff := cmp.Diff(want, i, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%q (-whole +used):\n%s", doc, diff)
		}
		if err != nil {
			return
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
