package cri

import (
	goruntime "runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/cpupoold/cpupoold/pkg/internal/bounded"
)

// maxFuzzMessage is the maximum size of a message in FuzzTrim.
const maxFuzzMessage = 64 << 10

// wanted selects annotations in these tests.
func wanted(key string) bool { return strings.HasPrefix(key, "w") }

// pieces returns a message as gRPC receives it: in frames.
func pieces(message []byte, frame int) (data mem.BufferSlice) {
	for piece := range slices.Chunk(message, frame) {
		data = append(data, mem.SliceBuffer(piece))
	}
	return data
}

// used returns the part of a reply that the client uses, by the names of the fields.
func used(reply proto.Message) proto.Message {
	annotations := func(all map[string]string) map[string]string {
		kept := bounded.Annotations(all, func(key string) bool { return wanted(key) && !isPodConfig(key) })
		for key := range all {
			if isPodConfig(key) {
				if kept == nil {
					kept = make(map[string]string)
				}
				kept[key] = ""
			}
		}
		return kept
	}
	podOf := func(p *runtime.PodSandbox) *runtime.PodSandbox {
		return &runtime.PodSandbox{Id: p.Id, Metadata: p.Metadata, State: p.State, CreatedAt: p.CreatedAt, RuntimeHandler: p.RuntimeHandler, Annotations: annotations(p.Annotations)}
	}
	containerOf := func(c *runtime.Container) *runtime.Container {
		return &runtime.Container{Id: c.Id, PodSandboxId: c.PodSandboxId, Metadata: c.Metadata, State: c.State, CreatedAt: c.CreatedAt}
	}
	switch r := reply.(type) {
	case *runtime.ListPodSandboxResponse:
		for i, p := range r.Items {
			r.Items[i] = podOf(p)
		}
	case *runtime.StreamPodSandboxesResponse:
		for i, p := range r.PodSandboxes {
			r.PodSandboxes[i] = podOf(p)
		}
	case *runtime.ListContainersResponse:
		for i, c := range r.Containers {
			r.Containers[i] = containerOf(c)
		}
	case *runtime.StreamContainersResponse:
		for i, c := range r.Containers {
			r.Containers[i] = containerOf(c)
		}
	case *runtime.PodSandboxStatusResponse:
		r.ContainersStatuses, r.Timestamp = nil, 0
		r.Info = usedInfo(r.Info)
		if s := r.Status; s != nil {
			r.Status = &runtime.PodSandboxStatus{Id: s.Id, Metadata: s.Metadata, State: s.State, CreatedAt: s.CreatedAt, RuntimeHandler: s.RuntimeHandler, Annotations: annotations(s.Annotations)}
		}
	case *runtime.ContainerStatusResponse:
		r.Info = usedInfo(r.Info)
		if s := r.Status; s != nil {
			r.Status = &runtime.ContainerStatus{Id: s.Id, Metadata: s.Metadata, State: s.State, CreatedAt: s.CreatedAt, FinishedAt: s.FinishedAt, Resources: s.Resources}
		}
	case *runtime.ContainerEventResponse:
		r.ContainersStatuses = nil
		if s := r.PodSandboxStatus; s != nil {
			r.PodSandboxStatus = &runtime.PodSandboxStatus{Id: s.Id}
		}
	}
	return reply
}

// usedInfo returns the part of a verbose status that the client uses.
func usedInfo(all map[string]string) map[string]string {
	doc, is := all[infoKey]
	if !is {
		return nil
	}
	return map[string]string{infoKey: string(trimDocument(strings.NewReader(doc)))} // see FuzzDocument
}

// replies returns one reply of each trimmed type, with all fields.
func replies() []proto.Message {
	labels, annotations := map[string]string{"l": "1"}, map[string]string{"w": "1", "x": strings.Repeat("x", 300), "wide": strings.Repeat("2", 2000), crioCgroupParent: "x"}
	pod := &runtime.PodSandbox{Id: "p", Metadata: &runtime.PodSandboxMetadata{Name: "n", Uid: "u", Namespace: "ns", Attempt: 3},
		State: runtime.PodSandboxState_SANDBOX_NOTREADY, CreatedAt: 7, Labels: labels, Annotations: annotations, RuntimeHandler: "kata"}
	container := &runtime.Container{Id: "c", PodSandboxId: "p", Metadata: &runtime.ContainerMetadata{Name: "n", Attempt: 2}, Image: &runtime.ImageSpec{Image: "i"},
		ImageRef: "r", State: runtime.ContainerState_CONTAINER_RUNNING, CreatedAt: 8, Labels: labels, Annotations: annotations, ImageId: "i"}
	podStatus := &runtime.PodSandboxStatus{Id: "p", Metadata: pod.Metadata, State: pod.State, CreatedAt: 7, Network: &runtime.PodSandboxNetworkStatus{Ip: "::1"},
		Labels: labels, Annotations: annotations, RuntimeHandler: "kata"}
	status := &runtime.ContainerStatus{Id: "c", Metadata: container.Metadata, State: container.State, CreatedAt: 8, StartedAt: 9, FinishedAt: 10, ExitCode: -1,
		Message: "m", Labels: labels, Annotations: annotations, Mounts: []*runtime.Mount{{HostPath: "/"}}, LogPath: "l",
		Resources: &runtime.ContainerResources{Linux: &runtime.LinuxContainerResources{CpuShares: 1024, CpuQuota: -1, CpusetCpus: "0-3"}}}
	info := map[string]string{"info": `{"pid":1,"config":{"envs":[{"key":"A","value":"1"}]}}`, "other": "x"}
	return []proto.Message{
		&runtime.ListPodSandboxResponse{Items: []*runtime.PodSandbox{pod, {}, pod}},
		&runtime.StreamPodSandboxesResponse{PodSandboxes: []*runtime.PodSandbox{pod}},
		&runtime.ListContainersResponse{Containers: []*runtime.Container{container, container}},
		&runtime.StreamContainersResponse{Containers: []*runtime.Container{container}},
		&runtime.PodSandboxStatusResponse{Status: podStatus, Info: info, ContainersStatuses: []*runtime.ContainerStatus{status}, Timestamp: 5},
		&runtime.ContainerStatusResponse{Status: status, Info: info},
		&runtime.ContainerEventResponse{ContainerId: "c", ContainerEventType: 2, CreatedAt: 4, PodSandboxStatus: podStatus, ContainersStatuses: []*runtime.ContainerStatus{status}},
	}
}

// encoded returns a message in the encoding of gRPC.
func encoded(t testing.TB, m proto.Message) []byte {
	t.Helper()
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// sameUsed checks that a trimmed reply has the used part of the whole reply.
func sameUsed(t *testing.T, kind proto.Message, data []byte, frame int) {
	t.Helper()
	want, got := kind.ProtoReflect().New().Interface(), kind.ProtoReflect().New().Interface()
	wholeErr := proto.Unmarshal(data, want)
	r := pieces(data, frame).Reader()
	defer r.Close()
	part, trimmed, err := trim(got, r, wanted)
	if !trimmed {
		t.Fatalf("%T is not trimmed; want it trimmed", kind)
	}
	if len(part) > len(data)+len(data)/2+100 { // 100 bytes for an error in a document
		t.Errorf("%T: bytes = %d of %d; want at most half as many more", kind, len(part), len(data))
	}
	if err == nil {
		err = proto.Unmarshal(part, got)
	}
	if wholeErr != nil {
		return // an error in an unused field is no error
	}
	if err != nil {
		if strings.Contains(err.Error(), "wire type") {
			return // a group
		}
		t.Fatalf("%T: %v; want no error", kind, err)
	}
	options := cmp.Options{protocmp.Transform(), protocmp.IgnoreEmptyMessages()}
	dropUnknown(want)
	dropUnknown(got)
	if s, is := got.(interface{ GetInfo() map[string]string }); is {
		if _, other := s.GetInfo()["other"]; other {
			t.Errorf("%T keeps an unused document; want it removed", kind)
		}
	}
	if diff := cmp.Diff(used(want), got, options); diff != "" {
		t.Errorf("%T (-used +trimmed):\n%s", kind, diff)
	}
}

// dropUnknown removes the fields that CRI does not have.
func dropUnknown(m proto.Message) {
	_ = protorange.Range(m.ProtoReflect(), func(p protopath.Values) error { // the function returns no error
		if inner, ok := p.Index(-1).Value.Interface().(protoreflect.Message); ok {
			inner.SetUnknown(nil)
		}
		return nil
	})
}

// TestTrim checks that a trimmed reply has all fields that the client uses, and no others,
// wherever the frames end.
func TestTrim(t *testing.T) {
	for _, reply := range replies() {
		data := encoded(t, reply)
		for _, frame := range []int{1, 2, 7, 64, 16 << 10} {
			sameUsed(t, reply, data, frame)
		}
	}
}

// TestTrimRefuses checks that a damaged message is an error.
func TestTrimRefuses(t *testing.T) {
	item := encoded(t, &runtime.PodSandbox{Id: "p", Annotations: map[string]string{"w": "1"}})
	for name, data := range map[string][]byte{
		"end in a tag":         {0x80},
		"end in a length":      {0x0a, 0x80},
		"length beyond end":    {0x0a, 0x05, 0x0a},
		"huge length":          append([]byte{0x0a}, protowire.AppendVarint(nil, 1<<62)...),
		"field 0":              {0x02, 0x00},
		"varint of 11 bytes":   {0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01},
		"group":                {0x0b, 0x0c},
		"item that ends early": protowire.AppendBytes([]byte{0x0a}, item[:len(item)-1]),
		"end in a fixed64":     {0x09, 1, 2, 3},
	} {
		r := pieces(data, 3).Reader()
		if _, _, err := trim(&runtime.ListPodSandboxResponse{}, r, wanted); err == nil {
			t.Errorf("%s = no error; want one", name)
		}
		r.Close()
	}
}

// TestTrimSkipsOthers checks that a reply of another type stays whole.
func TestTrimSkipsOthers(t *testing.T) {
	r := pieces(encoded(t, &runtime.VersionResponse{Version: "1"}), 10).Reader()
	defer r.Close()
	before := r.Remaining()
	if _, trimmed, err := trim(&runtime.VersionResponse{}, r, wanted); trimmed || err != nil || r.Remaining() != before {
		t.Errorf("trimmed = %v, %v, with %d of %d bytes left; want no change", trimmed, err, r.Remaining(), before)
	}
}

// TestTrimAllocatesLittle checks that a list takes little memory in addition to the frames that
// gRPC has received: one pod, not the list.
func TestTrimAllocatesLittle(t *testing.T) {
	pod := &runtime.PodSandbox{Id: "p", Annotations: map[string]string{"w": "1", "x": strings.Repeat("x", 256<<10)}}
	data := pieces(encoded(t, &runtime.ListPodSandboxResponse{Items: slices.Repeat([]*runtime.PodSandbox{pod}, 110)}), 16<<10)
	var before, after goruntime.MemStats
	goruntime.ReadMemStats(&before)
	r := data.Reader()
	part, _, err := trim(&runtime.ListPodSandboxResponse{}, r, wanted)
	goruntime.ReadMemStats(&after)
	r.Close()
	if err != nil || len(part) > 110*32 {
		t.Errorf("%d bytes, %v; want 110 pods without annotation x", len(part), err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("allocations = %d KiB for a list of %d KiB; want at most 1 MiB", took>>10, data.Len()>>10)
	}
}

// FuzzTrim checks on any message that the used part survives, and that no message of a
// runtime ends the daemon.
func FuzzTrim(f *testing.F) {
	kinds := replies()
	for i, reply := range kinds {
		f.Add(uint8(i), uint16(7), encoded(f, reply))
	}
	f.Fuzz(func(t *testing.T, kind uint8, frame uint16, data []byte) {
		if len(data) > maxFuzzMessage {
			return
		}
		sameUsed(t, kinds[int(kind)%len(kinds)], data, int(frame)+1)
	})
}
