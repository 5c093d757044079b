package runtimetest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/nri"
)

// eventTimeout is the maximum time for an expected event.
const eventTimeout = 30 * time.Second

// recorder is a plugin that keeps the IDs of the reported objects. It places each container on CPU
// 1.
type recorder struct {
	mu       sync.Mutex
	known    map[string]bool
	creating func() // called before the answer to Create
	states   chan nri.State
}

func (k *recorder) set(id string, there bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if there {
		k.known[id] = true
	} else {
		delete(k.known, id)
	}
}

func (k *recorder) has(id string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.known[id]
}

func (k *recorder) Synchronize(_ context.Context, pods []cri.Pod, cs []cri.Container) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.known = make(map[string]bool)
	for _, p := range pods {
		k.known[p.ID] = true
	}
	for _, c := range cs {
		k.known[c.ID] = true
	}
	return nil
}
func (k *recorder) RunPod(p cri.Pod)                { k.set(p.ID, true) }
func (k *recorder) ResizePod(string, cri.Resources) {}
func (k *recorder) StopPod(string)                  {}
func (k *recorder) RemovePod(id string)             { k.set(id, false) }
func (k *recorder) Create(_ context.Context, _ cri.Pod, c cri.Container) (nri.Reply, error) {
	if k.creating != nil {
		k.creating()
	}
	k.set(c.ID, true)
	return nri.Reply{Adjustment: nri.Adjustment{CPUs: cpuset.Of(1)}}, nil
}
func (k *recorder) Start(context.Context, string) error { return nil }
func (k *recorder) Update(context.Context, string, cri.Resources) (cri.Resources, error) {
	return cri.Resources{}, nil
}
func (k *recorder) Stop(string)      {}
func (k *recorder) Remove(id string) { k.set(id, false) }

// connectRecorder connects a keeper to the runtime until the end of the test.
func connectRecorder(t *testing.T, r *testnode.Runtime) *recorder {
	k := &recorder{states: make(chan nri.State, 1000)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- nri.Run(ctx, nri.Options{Socket: r.NRISocket(), Handler: k, State: func(s nri.State, _ error) { k.states <- s }})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run = %v; want its context's error", err)
		}
	})
	return k
}

func (k *recorder) await(t *testing.T, want nri.State) {
	t.Helper()
	for tooLong := time.After(eventTimeout); ; {
		select {
		case s := <-k.states:
			if s == want {
				return
			}
		case <-tooLong:
			t.Fatalf("the plugin does not become %v", want)
		}
	}
}

// node returns a runtime with one pod, and a client.
func node(t *testing.T, c testnode.RuntimeConfig) (r *testnode.Runtime, pod string, client *cri.Client) {
	t.Helper()
	r = testnode.StartRuntime(t, c)
	client, err := cri.Dial(r.Endpoint(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	pod, err = r.RunPod(testnode.PodSpec{UID: "u", Namespace: "n", Name: "p"})
	if err != nil {
		t.Fatal(err)
	}
	return r, pod, client
}

// create creates a container and returns its ID and its recorded CPUs.
func create(t *testing.T, r *testnode.Runtime, c *cri.Client, pod, name string) (id, cpus string) {
	t.Helper()
	id, err := r.CreateContainer(pod, testnode.ContainerSpec{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	status, err := c.ContainerStatus(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return id, status.Recorded.CPUs
}

// TestNRIBreaks checks that containers are created unadjusted while NRI is down, and are reported
// to the plugin afterwards. The same applies to a restart of the runtime.
func TestNRIBreaks(t *testing.T) {
	t.Parallel()
	r, pod, c := node(t, testnode.RuntimeConfig{NRI: true})
	k := connectRecorder(t, r)
	k.await(t, nri.Connected)
	first, cpus := create(t, r, c, pod, "first")
	if cpus != "1" || !k.has(first) || !k.has(pod) {
		t.Errorf("CPUs %q, container and pod reported: %v, %v; want 1, true, true", cpus, k.has(first), k.has(pod))
	}
	r.NRIDown()
	k.await(t, nri.Lost)
	second, cpus := create(t, r, c, pod, "second")
	if cpus != "" || k.has(second) {
		t.Errorf("without NRI: CPUs %q, reported: %v; want none, false", cpus, k.has(second))
	}
	if err := r.NRIUp(); err != nil {
		t.Fatal(err)
	}
	k.await(t, nri.Connected)
	if !k.has(first) || !k.has(second) {
		t.Error("containers created without NRI are not reported to the plugin")
	}
	r.Down()
	k.await(t, nri.Lost)
	if err := r.Up(); err != nil {
		t.Fatal(err)
	}
	k.await(t, nri.Connected)
	third, cpus := create(t, r, c, pod, "third")
	if cpus != "1" {
		t.Errorf("after the restart: CPUs %q; want 1", cpus)
	}
	if err := errors.Join(r.StartContainer(third), r.StopContainer(third), r.RemoveContainer(third)); err != nil {
		t.Error(err)
	}
	if k.has(third) {
		t.Error("the removal of a container is not reported to the plugin")
	}
}

// TestNRINoAnswer checks that the runtime does not wait for a plugin with a broken connection,
// nor longer than 2 s for a reply. The plugin connects again.
func TestNRINoAnswer(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*testnode.Runtime) func(){
		"broken": func(r *testnode.Runtime) func() { return r.NRIDown },
		"silent": func(*testnode.Runtime) func() { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, pod, c := node(t, testnode.RuntimeConfig{NRI: true})
			k, release := connectRecorder(t, r), make(chan struct{})
			breaks, asked := fail(r), make(chan struct{})
			k.creating = func() {
				close(asked)
				<-release
			}
			k.await(t, nri.Connected)
			if breaks != nil {
				go func() {
					<-asked
					breaks()
				}()
			}
			if _, cpus := create(t, r, c, pod, "c"); cpus != "" {
				t.Errorf("CPUs %q without an answer; want none", cpus)
			}
			close(release)
			k.await(t, nri.Lost)
			k.creating = nil
			if err := r.NRIUp(); err != nil {
				t.Fatal(err)
			}
			k.await(t, nri.Connected)
			if _, cpus := create(t, r, c, pod, "d"); cpus != "1" {
				t.Errorf("CPUs %q after a new connection; want 1", cpus)
			}
		})
	}
}

// TestNRIRequired checks that no container is created without a required plugin.
func TestNRIRequired(t *testing.T) {
	t.Parallel()
	r, pod, c := node(t, testnode.RuntimeConfig{NRI: true, NRIRequired: []string{nri.Name}})
	if id, err := r.CreateContainer(pod, testnode.ContainerSpec{Name: "early"}); err == nil {
		t.Errorf("container %s was created without the plugin", id)
	}
	k := connectRecorder(t, r)
	k.await(t, nri.Connected)
	if _, cpus := create(t, r, c, pod, "late"); cpus != "1" {
		t.Errorf("CPUs %q; want 1", cpus)
	}
}
