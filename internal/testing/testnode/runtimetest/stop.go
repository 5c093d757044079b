package runtimetest

import (
	"time"

	"github.com/cpupoold/cpupoold/pkg/cri"
)

// stop checks that Stop ends a running container, and returns no error for an exited or removed
// one.
func (b *bench) stop() {
	id := b.container(b.pod())
	b.must(b.Runtime.StartContainer(id))
	path := b.status(id).CgroupsPath
	for range 2 {
		b.must(b.Client.Stop(b.Context(), id, time.Second))
		// A busy runtime may still report it as running.
		for deadline := time.Now().Add(limit); ; {
			state := b.status(id).State
			if state == cri.Exited {
				break
			}
			if time.Now().After(deadline) {
				b.Fatalf("state after Stop: %v; want exited", state)
			}
		}
	}
	if b.exists(path) {
		b.Error("the cgroup exists after Stop")
	}
	b.must(b.Runtime.RemoveContainer(id))
	b.must(b.Client.Stop(b.Context(), id, time.Second))
}

// stopCreated checks Stop before the start. If the runtime does not support it, Stop returns no
// error and the container can start afterwards.
func (b *bench) stopCreated() {
	id := b.container(b.pod())
	b.must(b.Client.Stop(b.Context(), id, time.Second))
	want := cri.Created
	if b.StopsCreated {
		want = cri.Exited
	}
	if c := b.status(id); c.State != want {
		b.Errorf("state after Stop of a created container: %v; want %v", c.State, want)
	}
	if !b.StopsCreated {
		b.must(b.Runtime.StartContainer(id))
		b.must(b.Runtime.StopContainer(id))
	}
}

// stopPodCreated checks that a created container in a stopped pod cannot start. Some runtimes do
// not stop it with the pod.
func (b *bench) stopPodCreated() {
	pod := b.pod()
	id := b.container(pod)
	b.must(b.Runtime.StopPod(pod))
	want := cri.Created
	if b.StopsCreated {
		want = cri.Exited
	}
	if c := b.status(id); c.State != want {
		b.Errorf("state of a created container after its pod was stopped: %v; want %v", c.State, want)
	}
	if err := b.Runtime.StartContainer(id); err == nil {
		b.Error("a container of a stopped pod was started")
	}
}
