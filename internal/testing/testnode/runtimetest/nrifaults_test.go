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

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

// keeper is a plugin that keeps the ids of what it has been told is there, and
// puts each container on CPU 1.
type keeper struct {
	mu       sync.Mutex
	have     map[string]bool
	creating func() // called before the answer to Create
	states   chan nri.State
}

func (k *keeper) set(id string, there bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if there {
		k.have[id] = true
	} else {
		delete(k.have, id)
	}
}

func (k *keeper) has(id string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.have[id]
}

func (k *keeper) Synchronize(_ context.Context, pods []cri.Pod, cs []cri.Container) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.have = make(map[string]bool)
	for _, p := range pods {
		k.have[p.ID] = true
	}
	for _, c := range cs {
		k.have[c.ID] = true
	}
	return nil
}
func (k *keeper) RunPod(p cri.Pod)    { k.set(p.ID, true) }
func (k *keeper) StopPod(string)      {}
func (k *keeper) RemovePod(id string) { k.set(id, false) }
func (k *keeper) Create(_ context.Context, _ cri.Pod, c cri.Container) (nri.Reply, error) {
	if k.creating != nil {
		k.creating()
	}
	k.set(c.ID, true)
	return nri.Reply{Adjustment: nri.Adjustment{CPUs: cpuset.Of(1)}}, nil
}
func (k *keeper) Start(context.Context, string) error { return nil }
func (k *keeper) Update(context.Context, string, cri.Resources) (cri.Resources, error) {
	return cri.Resources{}, nil
}
func (k *keeper) Stop(string)      {}
func (k *keeper) Remove(id string) { k.set(id, false) }

// keep runs a keeper on the runtime until the end of the test.
func keep(t *testing.T, r *testnode.Runtime) *keeper {
	k := &keeper{states: make(chan nri.State, 1000)}
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

func (k *keeper) await(t *testing.T, want nri.State) {
	t.Helper()
	for tooLong := time.After(patience); ; {
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

// node is a runtime with one pod and a client.
func node(t *testing.T, c testnode.RuntimeConfig) (r *testnode.Runtime, pod string, client *cri.Client) {
	t.Helper()
	r = testnode.StartRuntime(t, c)
	client, err := cri.Dial(r.Endpoint())
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

// create makes a container and returns its id and its recorded CPUs.
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

// Without NRI containers are made as they are asked for; when it is back, the
// plugin is told of them. So it is when the whole runtime is restarted.
func TestNRIBreaks(t *testing.T) {
	t.Parallel()
	r, pod, c := node(t, testnode.RuntimeConfig{NRI: true})
	k := keep(t, r)
	k.await(t, nri.Connected)
	first, cpus := create(t, r, c, pod, "first")
	if cpus != "1" || !k.has(first) || !k.has(pod) {
		t.Errorf("CPUs %q, told %v, %v; want 1, and to be told", cpus, k.has(first), k.has(pod))
	}
	r.NRIDown()
	k.await(t, nri.Lost)
	second, cpus := create(t, r, c, pod, "second")
	if cpus != "" || k.has(second) {
		t.Errorf("without NRI: CPUs %q, told %v; want none", cpus, k.has(second))
	}
	if err := r.NRIUp(); err != nil {
		t.Fatal(err)
	}
	k.await(t, nri.Connected)
	if !k.has(first) || !k.has(second) {
		t.Error("the plugin is not told of what has been made in its absence")
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
		t.Error("the plugin is not told that a container is gone")
	}
}

// A plugin whose connection breaks while it is asked is not waited for, nor is one
// that says nothing for 2 s; both come back.
func TestNRINoAnswer(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*testnode.Runtime) func(){
		"broken": func(r *testnode.Runtime) func() { return r.NRIDown },
		"silent": func(*testnode.Runtime) func() { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, pod, c := node(t, testnode.RuntimeConfig{NRI: true})
			k, release := keep(t, r), make(chan struct{})
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
				t.Errorf("CPUs %q of a plugin that is back; want 1", cpus)
			}
		})
	}
}

// Where the plugin is required, no container is made without it.
func TestNRIRequired(t *testing.T) {
	t.Parallel()
	r, pod, c := node(t, testnode.RuntimeConfig{NRI: true, NRIRequired: []string{nri.Name}})
	if id, err := r.CreateContainer(pod, testnode.ContainerSpec{Name: "early"}); err == nil {
		t.Errorf("container %s was made without the plugin", id)
	}
	k := keep(t, r)
	k.await(t, nri.Connected)
	if _, cpus := create(t, r, c, pod, "late"); cpus != "1" {
		t.Errorf("CPUs %q; want 1", cpus)
	}
}
