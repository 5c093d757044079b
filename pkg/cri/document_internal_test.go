package cri

import (
	"encoding/json"
	goruntime "runtime"
	"strings"
	"testing"
	"unicode/utf8"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// trimmed returns the used part of a document.
func trimmed(doc string) string { return string(trimDocument(strings.NewReader(doc))) }

// TestTrimDocument checks which parts of a document the client copies, and the errors for text that is not
// JSON.
func TestTrimDocument(t *testing.T) {
	long := strings.Repeat("é", maxText)
	for doc, want := range map[string]string{
		"":                                "",
		` {"pid": 7, "a": [1, {}] } `:     `{"pid":7}`,
		`{"a":{"pid":7},"sandboxID":"s"}`: `{"sandboxID":"s"}`,
		`{"runtimeSpec":{"process":{"env":["A=1","OPENSHIFT_SHARED_CPUS=1","\u004fPENSHIFT_SHARED_CPUS=2","B=OPENSHIFT_SHARED_CPUS=3"],"cwd":"/"}}}`: `{"runtimeSpec":{"process":{"env":["\u004fPENSHIFT_SHARED_CPUS=2"]}}}`,
		`{"runtimeSpec":{"annotations":{"note":"x","` + crioCgroupParent + `":"p"}}}`:                                                                `{"runtimeSpec":{"annotations":{"` + crioCgroupParent + `":"p"}}}`,
		`{"runtimeSpec":{"linux":[{"cgroupsPath":"a"}],"process":{"env":{"A":[]}}}}`:                                                                 `{"runtimeSpec":{"linux":[{"cgroupsPath":"a"}],"process":{"env":{"A":[]}}}}`,
		`{"sandboxID":"` + long + `"}`:                  `{"sandboxID":"` + long[:maxText] + `..."}`,
		`{"sandboxID":"x` + long + `"}`:                 `{"sandboxID":"x` + long[:maxText-2] + `..."}`,
		`{"sandboxID":"x` + long[:maxText-2] + `\n\n"}`: `{"sandboxID":"x` + long[:maxText-2] + `..."}`,
		`{"sandboxID":"` + long[:maxText-2] + `\n"}`:    `{"sandboxID":"` + long[:maxText-2] + `\n"}`,
		`{"pid":` + strings.Repeat("1", 2000) + `}`:     `!a number has more than 1024 bytes`,
		`{"a":"` + "\n" + `"}`:                          `!invalid character '\n' in a string`,
		`{"pid":7}}`:                                    `!invalid character '}' after the document`,
		`{"pid":7`:                                      `!unexpected EOF`,
		`{"pid":7,}`:                                    `!invalid character '}' instead of a name`,
		`pid: 3`:                                        `!invalid value "pid"`,
	} {
		if got := trimmed(doc); got != want {
			t.Errorf("%.200q: %.200q; want %.200q", doc, got, want)
		}
	}
}

// TestTrimDocumentLimits checks that nested or numerous values are errors.
func TestTrimDocumentLimits(t *testing.T) {
	for doc, want := range map[string]string{
		strings.Repeat("[", maxDepth+1): "more than 10000 nested values",
		`{"sandboxID":[` + strings.Repeat(`"`+strings.Repeat("x", 1000)+`",`, 2000) + `0]}`: "the used part has more than 1048576 bytes",
	} {
		if got := trimmed(doc); got != notJSON+want {
			t.Errorf("%.80s: %.200s; want %s", doc, got, want)
		}
	}
}

// TestInfoFields checks that the client copies each field of info.
func TestInfoFields(t *testing.T) {
	var all info
	all.SandboxID, all.PID = "s", 1
	all.RuntimeSpec.Annotations = map[string]string{crioCgroupParent: "a", crioPodResources: "b", crioPodResourcesV2: "c"}
	all.RuntimeSpec.Process.Env = []string{SharedCPUsVariable + "=1"}
	all.RuntimeSpec.Linux.CgroupsPath = "p"
	all.RuntimeSpec.Linux.Resources.CPU = ociCPU{Shares: 1, Quota: 2, Period: 3, CPUs: "4", Mems: "5"}
	all.Config.Linux.CgroupParent = "q"
	all.Config.Linux.Resources = criCPU{Shares: 1, Quota: 2, Period: 3, CPUs: "4", Mems: "5"}
	doc, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	resources := `"resources":null}`
	whole := strings.TrimSuffix(string(doc), resources) + `"resources":{"linux":{"cpu_shares":1,"cpu_quota":2,"cpu_period":3,"cpuset_cpus":"4","cpuset_mems":"5"}}}`
	if got := trimmed(whole); got != whole || !strings.HasSuffix(string(doc), resources) {
		t.Errorf("copied %s of %s", got, whole)
	}
}

// TestTrimDocumentCutsCharacters checks that a long string is cut between characters, wherever the
// buffers of the reader end.
func TestTrimDocumentCutsCharacters(t *testing.T) {
	value := strings.Repeat("€", maxText/2)
	for padding := 4000; padding < 4200; padding++ { // the reader's buffer has 4,096 bytes
		doc := `{"x":"` + strings.Repeat("y", padding) + `","sandboxID":"z` + value + `"}`
		if got := trimmed(doc); !utf8.ValidString(got) || !strings.HasSuffix(got, `€..."}`) {
			t.Fatalf("%d bytes of padding: copy of %d bytes ends with %q", padding, len(got), got[max(0, len(got)-10):])
		}
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
		t.Errorf("%d KiB allocated for a status of %d KiB", took>>10, data.Len()>>10)
	}
}
