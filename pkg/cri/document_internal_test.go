package cri

import (
	"encoding/json"
	"reflect"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// trimmed returns the used part of a document.
func trimmed(doc string) string { return string(trimDocument(strings.NewReader(doc))) }

// TestTrimDocument checks which parts of a document the client decodes, and the errors for text that is not
// JSON.
func TestTrimDocument(t *testing.T) {
	for doc, want := range map[string]string{
		` {"pid": 7, "a": [1, {}] } `:     `{"pid":7}`,
		`{"a":{"pid":7},"sandboxID":"s"}`: `{"sandboxID":"s"}`,
		`{"pid":7,"PID":8}`:               `{"pid":7}`,
		`{"runtimeSpec":{"process":{"env":["A=1","OPENSHIFT_SHARED_CPUS=1","\u004fPENSHIFT_SHARED_CPUS=2","B=OPENSHIFT_SHARED_CPUS=3"],"cwd":"/"}}}`: `{"runtimeSpec":{"process":{"env":["OPENSHIFT_SHARED_CPUS=2"]}}}`,
		`{"runtimeSpec":{"process":{"env":null}}}`:                                    `{}`,
		`{"runtimeSpec":{"annotations":{"note":"x","` + crioCgroupParent + `":"p"}}}`: `{"runtimeSpec":{"annotations":{"` + crioCgroupParent + `":"p"}}}`,
	} {
		got, field, err := parseInfo(trimmed(doc))
		var whole info
		if wrong := json.Unmarshal([]byte(want), &whole); wrong != nil {
			t.Fatal(wrong)
		}
		if diff := cmp.Diff(whole, got, cmpopts.EquateEmpty()); diff != "" || err != nil {
			t.Errorf("%s: field %q, %v (-want +got):\n%s", doc, field, err, diff)
		}
	}
}

// TestTrimDocumentErrors checks the fields and the errors of documents that cannot be decoded.
func TestTrimDocumentErrors(t *testing.T) {
	for _, c := range []struct{ doc, field, want string }{
		{`{"a":"` + "\n" + `"}`, "", "invalid character '\\n'"},
		{`{"pid":7}}`, "", "invalid character '}'"},
		{`{"pid":7`, "", "unexpected EOF"},
		{`{"pid":7,}`, "", "invalid character ','"},
		{`pid: 3`, "", "invalid character 'p'"},
		{`{"a":` + strings.Repeat("[", 10_001), "", "depth"},
		{`{"pid":"7"}`, "pid", "int"},
		{`{"runtimeSpec":{"linux":[]}}`, "runtimeSpec.linux", "array"},
		{`{"runtimeSpec":{"process":{"env":{"A":1}}}}`, "runtimeSpec.process.env", "object"},
		{`{"runtimeSpec":{"process":{"env":[7]}}}`, "runtimeSpec.process.env", "not a string"},
		{`{"runtimeSpec":{"process":{"env":["A"`, "", "unexpected EOF"},
	} {
		i, field, err := parseInfo(trimmed(c.doc))
		if err == nil || field != c.field || !strings.Contains(err.Error(), c.want) || !reflect.DeepEqual(i, info{}) {
			t.Errorf("%.80q: field %q, %v; want field %q, %s", c.doc, field, err, c.field, c.want)
		}
	}
}

// TestInfoFields checks that the client copies each field of info.
func TestInfoFields(t *testing.T) {
	var all info
	all.SandboxID, all.PID = "s", 1
	all.RuntimeSpec.Annotations.CgroupParent = "a"
	all.RuntimeSpec.Annotations.Resources, all.RuntimeSpec.Annotations.ResourcesV2 = "b", "c"
	all.RuntimeSpec.Process.Env = environment{SharedCPUsVariable + "=1"}
	all.RuntimeSpec.Linux.CgroupsPath = "p"
	all.RuntimeSpec.Linux.Resources.CPU = Resources{Shares: 1, Quota: 2, Period: 3, CPUs: "4", Mems: "5"}
	all.Config.Linux.CgroupParent = "q"
	all.Config.Linux.Resources = criCPU{Shares: 1, Quota: 2, Period: 3, CPUs: "4", Mems: "5"}
	all.Config.CDIDevices = make([]struct{}, 2)
	doc, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	resources := `"resources":null}`
	whole := strings.TrimSuffix(string(doc), resources) + `"resources":{"linux":{"cpu_shares":1,"cpu_quota":2,"cpu_period":3,"cpuset_cpus":"4","cpuset_mems":"5"}}}`
	if got := trimmed(whole); got != whole || !strings.HasSuffix(string(doc), resources) {
		t.Errorf("copied %s of %s; want it complete", got, whole)
	}
}

// TestTrimStatusAllocatesLittle checks that a status of 8 MiB takes little memory in addition
// to the frames that gRPC has received.
func TestTrimStatusAllocatesLittle(t *testing.T) {
	data := pieces(encoded(t, statusWithEnvironment(t, 4<<20)), 16<<10)
	var before, after goruntime.MemStats
	goruntime.ReadMemStats(&before)
	r := data.Reader()
	part, _, err := trim(&runtime.ContainerStatusResponse{}, r, wanted)
	goruntime.ReadMemStats(&after)
	r.Close()
	if err != nil || len(part) > 1<<10 {
		t.Errorf("%d bytes, %v; want less than 1 KiB", len(part), err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("allocations = %d KiB for a status of %d KiB; want at most 1 MiB", took>>10, data.Len()>>10)
	}
}
