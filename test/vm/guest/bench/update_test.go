//go:build guest

package bench_test

import (
	"testing"
	"time"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/test/vm/internal/samples"
)

const updateSamples = 30

// TestUpdate measures one update of a container's CPUs by the runtime, and one query, on a node without a daemon. It compares the bare call with the
// daemon's client.
func TestUpdate(t *testing.T) {
	run(t, "systemctl", "stop", "kubelet")
	m := newMaker(t)
	client, err := cri.Dial(runtimeSocket, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	p, err := m.sandbox(t.Context(), kind{namespace: "default"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	container, err := m.create(t.Context(), p, "app", 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.start(t.Context(), container); err != nil {
		t.Fatal(err)
	}
	for range updateSamples {
		version := took(t, func() error {
			_, err := m.rpc.Version(t.Context(), &runtime.VersionRequest{})
			return err
		})
		oursVersion := took(t, func() error {
			_, _, err := client.Version(t.Context())
			return err
		})
		samples.Append(t, *out, "Limit/containerd/nothing", 1, version, "ns/op", oursVersion, "ours-ns/op")
		update := took(t, func() error {
			_, err := m.rpc.UpdateContainerResources(t.Context(), &runtime.UpdateContainerResourcesRequest{
				ContainerId: container, Linux: &runtime.LinuxContainerResources{CpusetCpus: "2-3"},
			})
			return err
		})
		oursUpdate := took(t, func() error { return client.UpdateCPUs(t.Context(), container, cpuset.Range(4, 5)) })
		samples.Append(t, *out, "Limit/containerd/update", 1, update, "ns/op", oursUpdate, "ours-ns/op")
	}
	if err := m.remove(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}

// took returns the duration of a call in nanoseconds.
func took(t *testing.T, do func() error) int64 {
	t.Helper()
	began := time.Now()
	if err := do(); err != nil {
		t.Fatal(err)
	}
	return time.Since(began).Nanoseconds()
}
