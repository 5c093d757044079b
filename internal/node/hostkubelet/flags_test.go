package hostkubelet_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/hostkubelet"
)

func TestParseFlags(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want map[string]string
	}{
		{"with =", []string{"kubelet", "--config=/a", "--v=2"}, map[string]string{"config": "/a", "v": "2"}},
		{"without =", []string{"kubelet", "--config", "/a", "--v", "2"}, map[string]string{"config": "/a", "v": "2"}},
		{"no value", []string{"kubelet", "--fail-swap-on", "--config=/a"}, map[string]string{"fail-swap-on": "", "config": "/a"}},
		{"_ for -", []string{"kubelet", "--cpu_manager_policy=static"}, map[string]string{"cpu-manager-policy": "static"}},
		{"= in the value", []string{"kubelet", "--node-labels=a=b"}, map[string]string{"node-labels": "a=b"}},
		{"last wins", []string{"kubelet", "--v=1", "--v=2"}, map[string]string{"v": "2"}},
		{"first word is the program", []string{"--config=/a"}, map[string]string{}},
		{"not flags", []string{"kubelet", "-v", "--", "x"}, map[string]string{}},
		{"kernel thread", []string{""}, map[string]string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := hostkubelet.ParseFlags([]byte(strings.Join(c.args, "\x00") + "\x00"))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("flags (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzParseFlags(f *testing.F) {
	f.Add([]byte("kubelet\x00--config=/a\x00--v\x002\x00"))
	f.Add([]byte("kubelet\x00--a_b=c_d\x00--\x00-x"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, name := range slices.Collect(maps.Keys(hostkubelet.ParseFlags(b))) {
			if strings.ContainsAny(name, "_=\x00") {
				t.Errorf("flag %q", name)
			}
		}
	})
}
