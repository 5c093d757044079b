package cri

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// statusWithEnvironment returns a verbose status with size bytes of environment, as containerd has it: in
// the configuration and in the OCI spec.
func statusWithEnvironment(t testing.TB, size int) *runtime.ContainerStatusResponse {
	t.Helper()
	var env []string
	var envs []map[string]string
	const each = 64 << 10
	for i := range size / each {
		name, value := fmt.Sprintf("VAR_%d", i), strings.Repeat("v", each)
		env = append(env, name+"="+value)
		envs = append(envs, map[string]string{"key": name, "value": value})
	}
	env = append(env, SharedCPUsVariable+"=2-3")
	doc, err := json.Marshal(map[string]any{
		"sandboxID": "p", "pid": 7, "config": map[string]any{"envs": envs},
		"runtimeSpec": map[string]any{
			"process": map[string]any{"env": env},
			"linux":   map[string]any{"cgroupsPath": "x.slice:c:1", "resources": map[string]any{"cpu": map[string]any{"shares": 1024, "cpus": "0-3"}}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &runtime.ContainerStatusResponse{
		Status: &runtime.ContainerStatus{Id: "c", Metadata: &runtime.ContainerMetadata{Name: "app"}},
		Info:   map[string]string{infoKey: string(doc)},
	}
}

// BenchmarkLargeStatus decodes a status of 8 MiB from the frames in which gRPC received it.
func BenchmarkLargeStatus(b *testing.B) {
	data := pieces(encoded(b, statusWithEnvironment(b, 4<<20)), 16<<10)
	b.SetBytes(int64(data.Len()))
	b.ReportAllocs()
	for b.Loop() {
		r := data.Reader()
		reply := &runtime.ContainerStatusResponse{}
		part, _, err := trim(reply, r, wanted)
		r.Close()
		if err != nil {
			b.Fatal(err)
		}
		if err := proto.Unmarshal(part, reply); err != nil {
			b.Fatal(err)
		}
		i, _, err := parseInfo(reply.GetInfo()[infoKey])
		if err != nil || SharedCPUs(i.RuntimeSpec.Process.Env) != "2-3" {
			b.Fatalf("%v, %q", err, i.RuntimeSpec.Process.Env)
		}
	}
}
