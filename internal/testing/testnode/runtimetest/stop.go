package runtimetest

import (
	"time"

	"github.com/cpupoold/cpupoold/pkg/cri"
)

// stop: a container that runs is ended, and one that has ended, or is gone, is no
// error.
func (b *bench) stop() {
	id := b.container(b.pod())
	b.must(b.Runtime.StartContainer(id))
	path := b.status(id).CgroupsPath
	for range 2 {
		b.must(b.Client.Stop(b.Context(), id, time.Second))
		// A busy runtime can go on to show it as running for a moment.
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
		b.Error("the cgroup is there after Stop")
	}
	b.must(b.Runtime.RemoveContainer(id))
	b.must(b.Client.Stop(b.Context(), id, time.Second))
}

// stopCreated: where the runtime does not stop what has not been started, it says
// nothing, and the container can be started afterwards.
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

// stopPodCreated: a container that has not been started when its pod is stopped may
// go on as one that is to be started.
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
