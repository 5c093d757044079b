package podresources_test

import (
	"cmp"
	"reflect"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/podresources"
)

func TestParseCPUState(t *testing.T) {
	t.Parallel()
	two := []podresources.Holding{
		{PodUID: "a", Container: "app", CPUs: cpuset.Of(2, 3)},
		{PodUID: "b", Container: "x", CPUs: cpuset.Of(4)},
	}
	for _, tt := range []struct {
		name, file string
		want       podresources.CPUState
	}{
		{"version 2", `{"policyName":"static","defaultCpuSet":"0-1,5-7","entries":{"b":{"x":"4"},"a":{"app":"2-3"}},"checksum":1}`,
			podresources.CPUState{Policy: "static", Default: cpuset.Of(0, 1, 5, 6, 7), Holdings: two}},
		{"version 2 of none", `{"policyName":"none","defaultCpuSet":"","checksum":1353318690}`, podresources.CPUState{Policy: "none"}},
		{"version 1 without containers", `{"policyName":"static","defaultCpuSet":"0-3","checksum":1}`,
			podresources.CPUState{Policy: "static", Default: cpuset.Range(0, 3)}},
		{"version 3", `{"policyName":"static","defaultCpuSet":"0-1","entries":{"a":{"app":"2"}},"podEntries":{"a":{"cpuSet":"2-3"}},"checksum":1}`,
			podresources.CPUState{Policy: "static", Default: cpuset.Of(0, 1), Holdings: []podresources.Holding{
				{PodUID: "a", CPUs: cpuset.Of(2, 3)}, {PodUID: "a", Container: "app", CPUs: cpuset.Of(2)}}}},
		{"version 4", `{"policyName":"none","defaultCpuSet":"9","entries":{"old":{"app":"7"}},"checksum":1,` +
			`"data":"{\"policyName\":\"static\",\"defaultCpuSet\":\"0-1,5-7\",\"entries\":{\"b\":{\"x\":\"4\"},\"a\":{\"app\":\"2-3\"}},\"baselines\":{\"a\":{\"app\":{\"baseline\":\"2\"}}}}","dataChecksum":77}`,
			podresources.CPUState{Policy: "static", Default: cpuset.Of(0, 1, 5, 6, 7), Holdings: two}},
		{"no CPUs", `{"policyName":"static","defaultCpuSet":"0","entries":{"a":{"app":""}}}`,
			podresources.CPUState{Policy: "static", Default: cpuset.Of(0)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := podresources.ParseCPUState([]byte(tt.file))
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(tt.want, got); diff != "" {
				t.Errorf("state (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseCPUStateErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, file, want string }{
		{"empty", "\n", "the file is empty"},
		{"torn", `{"policyName":"static","defaultCpuSet":"0-1","ent`, "unexpected end of JSON input"},
		{"zeros after a crash", "\x00\x00\x00", "invalid character"},
		{"no policy", `{"defaultCpuSet":"0"}`, "policyName is missing"},
		{"default", `{"policyName":"static","defaultCpuSet":"0-"}`, "defaultCpuSet"},
		{"above all", `{"policyName":"static","defaultCpuSet":"0-70000"}`, "defaultCpuSet"},
		{"entry", `{"policyName":"static","defaultCpuSet":"0","entries":{"a":{"app":"x"}}}`, `pod "a", container "app"`},
		{"pod", `{"policyName":"static","defaultCpuSet":"0","podEntries":{"a":{"cpuSet":"x"}}}`, `pod "a", container ""`},
		{"version 1", `{"policyName":"static","defaultCpuSet":"0","entries":{"1f2e":"3"}}`, "before 1.18"},
		{"data", `{"policyName":"static","defaultCpuSet":"0","data":"{"}`, "data: "},
		{"data without policy", `{"policyName":"static","defaultCpuSet":"0","data":"{}"}`, "policyName is missing"},
		{"no UID", `{"policyName":"static","defaultCpuSet":"0","entries":{"":{"app":"1"}}}`, "without a UID"},
		{"no name", `{"policyName":"static","defaultCpuSet":"0","entries":{"a":{"":"1"}}}`, "no name"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := podresources.ParseCPUState([]byte(tt.file))
			if err == nil || !strings.Contains(err.Error(), tt.want) || !reflect.ValueOf(got).IsZero() {
				t.Errorf("ParseCPUState = %v, %v; want nothing, and an error with %q", got, err, tt.want)
			}
		})
	}
}

// FuzzParseCPUState checks that the result of any file has the documented properties of
// CPUState, and that an error comes with an empty result.
func FuzzParseCPUState(f *testing.F) {
	f.Add([]byte(`{"policyName":"static","defaultCpuSet":"0-1","entries":{"a":{"app":"2"}},"podEntries":{"a":{"cpuSet":"2-3"}},"checksum":1}`))
	f.Add([]byte(`{"policyName":"static","checksum":1,"data":"{\"policyName\":\"static\",\"entries\":{\"b\":{\"x\":\"4\"}}}","dataChecksum":77}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := podresources.ParseCPUState(b)
		if err != nil {
			if !reflect.ValueOf(s).IsZero() {
				t.Fatalf("state with error %v = %v; want it empty", err, s)
			}
			return
		}
		if s.Policy == "" {
			t.Error("policy = empty without an error; want one of both")
		}
		for i, h := range s.Holdings {
			if h.PodUID == "" || h.CPUs.IsEmpty() {
				t.Errorf("holding %v lacks an owner or CPUs", h)
			}
			if i == 0 {
				continue
			}
			if o := s.Holdings[i-1]; cmp.Or(strings.Compare(o.PodUID, h.PodUID), strings.Compare(o.Container, h.Container)) >= 0 {
				t.Errorf("holding %v is out of order, or exists twice", h)
			}
		}
	})
}
