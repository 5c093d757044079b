package cgroup

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// TestCheck checks that Check finds every change that causes no inotify event, whatever the cgroup was
// before. If only such changes are possible in a cgroup, it reads nothing more.
func TestCheck(t *testing.T) {
	const pod = "pods.slice/a.slice"
	for name, c := range map[string]struct {
		path   Path
		before map[string]string // of the cgroup, and of its inner one
		inner  map[string]string
		after  map[string]map[string]string // by cgroup
		reads  bool                         // reads all files
		stands bool                         // as before, though files have been written
	}{
		"nothing":                         {path: pod + "/1.scope"},
		"nothing, in a pod":               {path: pod},
		"nothing, with crun":              {path: pod + "/1.scope", inner: map[string]string{}},
		"its CPUs":                        {path: pod + "/1.scope", reads: true, after: map[string]map[string]string{pod + "/1.scope": {FileCPUs: "5", fileEffective: "5", FileWeight: "3"}}},
		"its pod's CPUs":                  {path: pod + "/1.scope", after: map[string]map[string]string{pod: {fileEffective: "0-5"}}},
		"its CPUs, in crun's":             {path: pod + "/1.scope", inner: map[string]string{}, reads: true, after: map[string]map[string]string{pod + "/1.scope/container": {fileEffective: "3"}}},
		"its controller":                  {path: pod + "/1.scope", reads: true, after: map[string]map[string]string{pod + "/1.scope": {fileEffective: "-"}}},
		"a weight, which causes an event": {path: pod + "/1.scope", stands: true, after: map[string]map[string]string{pod + "/1.scope": {FileWeight: "3"}}},
		"the state of a partition":        {path: pod + "/1.scope", before: map[string]string{FilePartition: "root"}, reads: true, after: map[string]map[string]string{pod + "/1.scope": {FilePartition: "root invalid"}}},
		"partition of an invalid one":     {path: pod + "/1.scope", before: map[string]string{FilePartition: "root invalid"}, reads: true, after: map[string]map[string]string{pod + "/1.scope": {FilePartition: "root"}}},
		"memory nodes":                    {path: pod + "/1.scope", before: map[string]string{FileMems: "0-1", fileEffectiveMems: "0"}, reads: true, after: map[string]map[string]string{pod + "/1.scope": {fileEffectiveMems: "0-1"}}},
		"values of crun's cgroup":         {path: pod + "/1.scope", inner: map[string]string{FileMems: "0-1", fileEffectiveMems: "0"}, reads: true, after: map[string]map[string]string{pod + "/1.scope/container": {fileEffectiveMems: "0-1"}}},
		"a cpu controller that is new":    {path: pod + "/1.scope", before: map[string]string{FileWeight: "-"}, reads: true, after: map[string]map[string]string{pod + "/1.scope": {FileWeight: "100"}}},
		"a cpuset controller that is new": {path: pod + "/1.scope", before: map[string]string{fileEffective: "-"}, reads: true, after: map[string]map[string]string{pod + "/1.scope": {fileEffective: "0-7"}}},
		"the root":                        {path: "", before: map[string]string{fileEffectiveMems: "0"}, reads: true, after: map[string]map[string]string{"": {fileEffectiveMems: "0-1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlain(t)
			files := map[string]map[string]string{"": {}, "pods.slice": {}, pod: {}, pod + "/1.scope": {}}
			if c.inner != nil {
				files[pod+"/1.scope/container"] = c.inner
			}
			files[string(c.path)] = maps.Clone(c.before)
			for at, of := range files {
				p.make(at, of)
			}
			r := New(p).Reader()
			defer r.Rest()
			before, err := r.Read(c.path)
			if err != nil {
				t.Fatal(err)
			}
			for at, of := range c.after {
				all := maps.Clone(files[at])
				if all == nil {
					all = make(map[string]string)
				}
				maps.Copy(all, of)
				for file, content := range all {
					if content == "-" {
						if err := os.Remove(filepath.Join(p.at, at, file)); err != nil && !errors.Is(err, os.ErrNotExist) {
							t.Fatal(err)
						}
					}
				}
				p.make(at, all)
			}
			r.Rest()
			clear(p.asked)
			got, err := r.Check(before)
			if err != nil {
				t.Fatal(err)
			}
			if read := p.asked["cgroup.events"]+p.asked[fileEffectiveMems] > 0; read != c.reads {
				t.Errorf("files read = %v; want a full read only if expected", p.asked)
			}
			want, err := New(p).Read(c.path)
			if c.stands {
				want = before
			}
			if err != nil || !cmp.Equal(got, want) {
				t.Errorf("%v (-want +got):\n%s", err, cmp.Diff(want, got))
			}
		})
	}
}

// TestCheckGone checks that a removed cgroup is reported as Read does, and that the
// missing inner cgroup of crun is found.
func TestCheckGone(t *testing.T) {
	p, all := aNode(t)
	r := New(p).Reader()
	defer r.Rest()
	known := make(map[Path]State)
	for _, at := range all {
		st, err := r.Read(at)
		if err != nil {
			t.Fatal(err)
		}
		known[at] = st
	}
	const scope = "pods.slice/a.slice/2.scope"
	if err := os.RemoveAll(filepath.Join(p.at, scope, "container")); err != nil {
		t.Fatal(err)
	}
	r.Rest()
	if st, err := r.Check(known[scope]); err != nil || st.Inner != nil || !st.CPUs.Equal(cpuset.Of(1)) {
		t.Errorf("Check = %+v, %v; want one without crun's", st, err)
	}
	if err := os.RemoveAll(filepath.Join(p.at, scope)); err != nil {
		t.Fatal(err)
	}
	r.Rest()
	if st, err := r.Check(known[scope]); !errors.Is(err, ErrGone) {
		t.Errorf("Check = %+v, %v; want ErrGone", st, err)
	}
	if err := os.RemoveAll(filepath.Join(p.at, "pods.slice/a.slice")); err != nil {
		t.Fatal(err)
	}
	r.Rest()
	if st, err := r.Check(known["pods.slice/a.slice/1.scope"]); !errors.Is(err, ErrGone) {
		t.Errorf("Check without its pod = %+v, %v; want ErrGone", st, err)
	}
}
