package cri_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestClaimRefs checks which CDI devices and variables are references to claims.
func TestClaimRefs(t *testing.T) {
	for _, tt := range []struct {
		name         string
		devices, env string
		want         cri.ClaimRefs
	}{
		{"nothing", "", "A=1 DRA_CPUSET_= DRA_CPUSET XDRA_CPUSET_u=1", cri.ClaimRefs{}},
		{"device", "cpu.cpupoold.io/claim=u", "", cri.ClaimRefs{HasDevices: true, Devices: []string{"u"}}},
		{"devices in order, each once", "cpu.cpupoold.io/claim=v nvidia.com/gpu=0 cpu.cpupoold.io/claim=u cpu.cpupoold.io/claim=v", "",
			cri.ClaimRefs{HasDevices: true, Devices: []string{"u", "v"}}},
		{"devices of other kinds", "nvidia.com/gpu=0 cpu.cpupoold.io/claims=u xcpu.cpupoold.io/claim=u", "", cri.ClaimRefs{HasDevices: true}},
		{"variable", "", "A=1 DRA_CPUSET_u=4-5,8 B=2", cri.ClaimRefs{Variables: map[string]string{"u": "4-5,8"}}},
		{"variable without value", "", "DRA_CPUSET_u", cri.ClaimRefs{Variables: map[string]string{"u": ""}}},
		{"last variable counts", "", "DRA_CPUSET_u=1 DRA_CPUSET_v=2 DRA_CPUSET_u=3", cri.ClaimRefs{Variables: map[string]string{"u": "3", "v": "2"}}},
		{"both", "cpu.cpupoold.io/claim=u", "DRA_CPUSET_u=1=2", cri.ClaimRefs{HasDevices: true, Devices: []string{"u"}, Variables: map[string]string{"u": "1=2"}}},
		{"too long a name", "", "DRA_CPUSET_" + strings.Repeat("u", 65) + "=1", cri.ClaimRefs{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := cri.ClaimRefsOf(strings.Fields(tt.devices), strings.Fields(tt.env))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzClaimRefs checks that references are bounded, and that Names returns the same references.
func FuzzClaimRefs(f *testing.F) {
	f.Add("cpu.cpupoold.io/claim=u\x00nvidia.com/gpu=0", "DRA_CPUSET_u=4-5\x00A=1")
	f.Add("cpu.cpupoold.io/claim="+strings.Repeat("\xff", 100), "DRA_CPUSET_"+strings.Repeat("u", 100)+"=1")
	f.Add("", "DRA_CPUSET_u="+strings.Repeat("1,", 1000)+"1")
	f.Add("\x00", strings.Repeat("DRA_CPUSET_u=\x00DRA_CPUSET_v\x00", 3))
	var many []string
	for c := range 30 {
		many = append(many, "DRA_CPUSET_"+string(rune('a'+c))+"="+strings.Repeat("1,", 400)+"1")
	}
	f.Add("", strings.Join(many, "\x00"))
	f.Fuzz(func(t *testing.T, devices, env string) {
		names, variables := strings.Split(devices, "\x00"), strings.Split(env, "\x00")
		got := cri.ClaimRefsOf(names, variables)
		size := 0
		for uid, value := range got.Variables {
			if size += len(cri.ClaimVariable) + len(uid) + len(value); size > 4<<10 {
				t.Errorf("variables of %d bytes; want at most 4096", size)
			}
			if uid == "" || len(uid) > 64 || len(value) > 1024 {
				t.Errorf("variable of %d bytes with %d bytes; want at most 64 and 1024", len(uid), len(value))
			}
			asWritten := slices.Contains(variables, cri.ClaimVariable+uid+"="+value) || value == "" && slices.Contains(variables, cri.ClaimVariable+uid)
			if _, err := cpuset.Parse(value); err == nil && !asWritten {
				t.Errorf("variable %q = %q, which the environment does not contain", uid, value)
			}
		}
		for _, uid := range got.Devices {
			if len(uid) > 64 {
				t.Errorf("UID of %d bytes; want at most 64", len(uid))
			}
		}
		if diff := cmp.Diff(got, cri.ClaimRefsOf(got.Names())); diff != "" {
			t.Errorf("references of Names (-want +got):\n%s", diff)
		}
	})
}
