package claimuse_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/claimuse"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// node has claim u with two parts, v, and w without CPUs, all of pod p, and claim x of another pod.
func node() *claimuse.Node {
	claims := []pools.Claim{
		{UID: "u", Namespace: "default", Name: "cpus", PodUID: "p"},
		{UID: "v", Namespace: "default", Name: "more", PodUID: "p"},
		{UID: "w", Namespace: "default", Name: "none", PodUID: "p"},
		{UID: "x", Namespace: "other", Name: "theirs", PodUID: "q"},
	}
	part := func(uid, part string, cpus, away cpuset.Set) pools.Assignment {
		return pools.Assignment{Key: pools.Key{Claim: uid, Container: part}, CPUs: cpus, Away: away}
	}
	return &claimuse.Node{
		Claims: claims,
		Assignments: []pools.Assignment{
			{Key: pools.Key{PodUID: "u", Container: "u"}, CPUs: cpuset.Of(1)},
			part("u", "a", cpuset.Of(4), cpuset.Of(5)), part("u", "b", cpuset.Of(8), cpuset.Set{}),
			part("v", "a", cpuset.Of(9), cpuset.Set{}), part("x", "a", cpuset.Of(10), cpuset.Set{}),
		},
	}
}

// TestFind checks which references are believed, and which refuse the container.
func TestFind(t *testing.T) {
	for _, tt := range []struct {
		name, devices, env string
		want               string // UIDs
		ignored            string // part of the reason
		refused            string // part of the error
	}{
		{name: "no references"},
		{name: "device", devices: "u", want: "u"},
		{name: "device with its variable", devices: "u", env: "u=4-5,8", want: "u"},
		{name: "device counts, and its variable does not", devices: "u", env: "u=1", want: "u"},
		{name: "two devices", devices: "u v", want: "u v"},
		{name: "device of a claim without CPUs", devices: "w", want: "w"},
		{name: "device of an unprepared claim", devices: "u z", refused: `claim "z" of CPUs is not prepared on this node`},
		{name: "device without UID", devices: "=", refused: `claim "" of CPUs is not prepared`},
		{name: "device of another pod", devices: "x", refused: "claim other/theirs (x) is prepared for pod q, and the container is in pod p"},
		{name: "variable", env: "u=4-5,8", want: "u"},
		{name: "variable in another notation", env: "u=8,5,4", want: "u"},
		{name: "two variables", env: "u=4-5,8 v=9", want: "u v"},
		{name: "variable of online CPUs alone", env: "u=4,8", ignored: "the CPUs of the claim are 4-5,8"},
		{name: "variable of other CPUs", env: "u=4-8", ignored: `"DRA_CPUSET_u=4-8", which cpupoold does not believe: the CPUs of the claim are 4-5,8`},
		{name: "variable that is no list", env: "u=all", ignored: "the CPUs of the claim are 4-5,8"},
		{name: "empty variable of a claim without CPUs", env: "w=", ignored: "the CPUs of the claim are"},
		{name: "variable of another pod", env: "x=10", ignored: "the claim belongs to another pod"},
		{name: "variable of an unprepared claim", env: "z=4-5,8", ignored: "no such claim is prepared on this node"},
		{name: "one of two variables", env: "u=1 v=9", want: "v", ignored: "DRA_CPUSET_u"},
		{name: "variable next to a device of another claim", devices: "v", env: "u=4-5,8", want: "v", ignored: "none is of this claim"},
		{name: "variable next to a device of another kind", devices: "-", env: "u=4-5,8", ignored: "none is of this claim"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var devices, env []string
			for d := range strings.FieldsSeq(tt.devices) {
				devices = append(devices, map[string]string{"-": "nvidia.com/gpu=0", "=": cri.ClaimDevice + "="}[d])
				if devices[len(devices)-1] == "" {
					devices[len(devices)-1] = cri.ClaimDevice + "=" + d
				}
			}
			for e := range strings.FieldsSeq(tt.env) {
				env = append(env, cri.ClaimVariable+e)
			}
			n := node()
			got, ignored, err := n.Find(cri.ClaimRefsOf(devices, env), "p")
			if (err != nil) != (tt.refused != "") || err != nil && !strings.Contains(err.Error(), tt.refused) {
				t.Fatalf("error = %v; want %q", err, tt.refused)
			}
			if want := strings.Fields(tt.want); !slices.Equal(got, want) {
				t.Errorf("claims = %q; want %q", got, want)
			}
			if (ignored != "") != (tt.ignored != "") || !strings.Contains(ignored, tt.ignored) {
				t.Errorf("ignored = %q; want %q", ignored, tt.ignored)
			}
		})
	}
}

// FuzzFind checks that a container uses only claims of its pod, and that its environment contains their
// CPUs. It checks that the reason is bounded.
func FuzzFind(f *testing.F) {
	f.Add("u=4-5,8\x00v=9", "p")
	f.Add("x=10", "p")
	f.Add("x=10", "q")
	f.Add("u="+strings.Repeat("\U0010ffff", 1000), "p")
	f.Fuzz(func(t *testing.T, env, pod string) {
		var all []string
		for e := range strings.SplitSeq(env, "\x00") {
			all = append(all, cri.ClaimVariable+e)
		}
		n, refs := node(), cri.ClaimRefsOf(nil, all)
		got, ignored, err := n.Find(refs, pod)
		if err != nil || len(ignored) > 2000 {
			t.Errorf("error = %v, reason of %d bytes; want no error and at most 2000", err, len(ignored))
		}
		for _, uid := range got {
			i := slices.IndexFunc(n.Claims, func(c pools.Claim) bool { return c.UID == uid })
			cpus, err := cpuset.Parse(refs.Variables[uid])
			if i < 0 || n.Claims[i].PodUID != pod || err != nil || !cpus.Equal(map[string]cpuset.Set{"u": cpuset.Of(4, 5, 8), "v": cpuset.Of(9), "x": cpuset.Of(10)}[uid]) {
				t.Errorf("pod %q uses claim %q with %q", pod, uid, refs.Variables[uid])
			}
		}
	})
}
