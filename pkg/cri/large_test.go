package cri_test

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// pods starts n pods with one container each. They have an annotation that the client keeps,
// and another one of size bytes.
func pods(t testing.TB, r *testnode.Runtime, n int, name string, size int) (ids []string) {
	t.Helper()
	annotations := map[string]string{"target.workload.openshift.io/management": "{}", name: strings.Repeat("x", size)}
	for i := range n {
		id, err := r.RunPod(testnode.PodSpec{UID: fmt.Sprint(i), Namespace: "ns", Name: fmt.Sprintf("pod-%d", i), QoS: "burstable", Annotations: annotations})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.CreateContainer(id, testnode.ContainerSpec{Name: "app", Annotations: map[string]string{"note": "x"}}); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

// live returns the bytes of the heap that are in use after garbage collection. Pools keep
// buffers for one collection.
func live() int64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestLiveMemory checks that pods with 256 KiB of annotations take little memory after a
// listing with all details. The largest annotation has a name that the client drops, or one
// that it keeps.
func TestLiveMemory(t *testing.T) {
	for _, name := range []string{"note", "target.workload.openshift.io/note"} {
		t.Run(name, func(t *testing.T) { testLiveMemory(t, name) })
	}
}

func testLiveMemory(t *testing.T, name string) {
	n, maxPerPod := int64(110), int64(4<<10) // measured: 2.5 KiB for a pod with its container
	if keepsTarget(name) {
		maxPerPod += 4 << 10 // 1 KiB of the value, in the list and in the details
	}
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	r, c := start(t, testnode.RuntimeConfig{Flavor: testnode.CRIO, Events: testnode.EventsOff})
	ids := pods(t, r, int(n), name, 256<<10)
	if _, _, err := c.List(t.Context()); err != nil { // connects
		t.Fatal(err)
	}
	before := live()
	listed, containers, err := c.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var described []cri.Pod
	for _, id := range ids {
		p, err := c.PodStatus(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		described = append(described, p)
	}
	after := live()
	for _, p := range append(listed, described...) {
		if _, kept := p.Annotations[name]; kept != keepsTarget(name) || p.Annotations["target.workload.openshift.io/management"] != "{}" {
			t.Fatalf("pod %s has annotations %.80v; want the one that the client keeps", p.Name, p.Annotations)
		}
	}
	if len(listed) != int(n) || len(containers) != int(n) {
		t.Errorf("%d pods, %d containers; want %d", len(listed), len(containers), n)
	}
	perPod := (after - before) / n
	t.Logf("%d bytes for each pod", perPod)
	if perPod > maxPerPod {
		t.Errorf("%d bytes of live memory for each pod; want at most %d", perPod, maxPerPod)
	}
	runtime.KeepAlive(described)
	runtime.KeepAlive(listed)
	runtime.KeepAlive(containers)
}

// TestListLimits checks lists around the limits for one message: 16 MiB of containerd, 64 MiB
// of the client.
func TestListLimits(t *testing.T) {
	const big = 256 << 10
	for _, tt := range []struct {
		name    string
		config  testnode.RuntimeConfig
		pods    int
		streams int // calls of StreamPodSandboxes
		refused string
	}{
		{"20 MiB, CRI-O", testnode.RuntimeConfig{Flavor: testnode.CRIO}, 80, 0, ""},
		{"20 MiB, containerd with streams", testnode.RuntimeConfig{ListStreams: true}, 80, 1, ""},
		{"20 MiB, containerd", testnode.RuntimeConfig{}, 80, 1, "max_send_message_size"},
		{"65 MiB, CRI-O with streams", testnode.RuntimeConfig{Flavor: testnode.CRIO, ListStreams: true}, 260, 1, ""},
		{"65 MiB, CRI-O", testnode.RuntimeConfig{Flavor: testnode.CRIO}, 260, 1, "67108864"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.config.Events = testnode.EventsOff
			r, c := start(t, tt.config)
			ids := pods(t, r, tt.pods, "note", big)
			listed, containers, err := c.List(t.Context())
			if got := r.Calls("StreamPodSandboxes"); got != tt.streams {
				t.Errorf("%d calls of StreamPodSandboxes; want %d", got, tt.streams)
			}
			if tt.refused == "" {
				if err != nil || len(listed) != tt.pods || len(containers) != tt.pods {
					t.Errorf("List: %d pods, %d containers, %v; want %d of each", len(listed), len(containers), err, tt.pods)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.refused) || !strings.Contains(err.Error(), "remove large annotations") || strings.Contains(err.Error(), "\n") {
				t.Errorf("List: %v; want one line with the limit %s and a remedy", err, tt.refused)
			}
			// The connection remains.
			if _, err := c.PodStatus(t.Context(), ids[0]); err != nil {
				t.Errorf("PodStatus after a list that is too large: %v", err)
			}
		})
	}
}

// TestListContainersInParts checks that a large list of containers comes as a stream, and
// that an error of the stream is an error of the list.
func TestListContainersInParts(t *testing.T) {
	r, c := start(t, testnode.RuntimeConfig{ListStreams: true, Events: testnode.EventsOff})
	pod := pods(t, r, 1, "note", 1)[0]
	large := map[string]string{"note": strings.Repeat("x", 256<<10)}
	for i := range 80 {
		must[string](t)(r.CreateContainer(pod, testnode.ContainerSpec{Name: fmt.Sprint(i), Annotations: large}))
	}
	_, containers, err := c.List(t.Context())
	if err != nil || len(containers) != 81 || r.Calls("StreamContainers") != 1 || r.Calls("StreamPodSandboxes") != 0 {
		t.Errorf("List: %d containers, %v; want 81 from a stream", len(containers), err)
	}
	r.Fail("StreamContainers", fmt.Errorf("disk is full"))
	if _, _, err := c.List(t.Context()); err == nil || !strings.Contains(err.Error(), "disk is full") {
		t.Errorf("List: %v; want the error of the stream", err)
	}
}

// BenchmarkLargeList lists pods with 256 KiB of annotations each. B/op contains the fake
// runtime, which encodes the list; frames are the pieces of gRPC.
func BenchmarkLargeList(b *testing.B) {
	r := testnode.StartRuntime(b, testnode.RuntimeConfig{Flavor: testnode.CRIO, Events: testnode.EventsOff})
	pods(b, r, 110, "note", 256<<10)
	c, err := cri.Dial(r.Endpoint(), keepsTarget)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := c.List(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
