// Package runtimetest tests the properties of container runtimes that cpupoold depends on. The
// suite runs on the fake runtime of testnode on any machine, and on real runtimes in virtual
// machines. So unit tests may depend on the fake.
package runtimetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// Runtime creates, starts and removes pods and containers instead of the kubelet. The effects of
// a call are complete when it returns.
type Runtime interface {
	RunPod(testnode.PodSpec) (id string, err error)
	StopPod(id string) error
	RemovePod(id string) error
	CreateContainer(podID string, s testnode.ContainerSpec) (id string, err error)
	StartContainer(id string) error
	StopContainer(id string) error
	RemoveContainer(id string) error
}

// Node is the subject of the suite. It has the CPUs 0 to 3 and the NUMA nodes 0 and 1, but
// neither CPU 4000 nor node 900.
type Node struct {
	Runtime Runtime
	Client  *cri.Client
	Cgroups *cgroup.FS
	Driver  cgroup.Driver
	// CgroupAtCreate reports whether the cgroup of a container exists before its start.
	CgroupAtCreate bool
	// UpdatesExited reports whether the runtime accepts updates of exited containers.
	UpdatesExited bool
	// StopsCreated reports whether a container can be stopped before its start, alone and with
	// its pod.
	StopsCreated bool
	// NoEvents reports whether the runtime sends no events.
	NoEvents bool
	// QuietSandboxes reports whether sandboxes have no events about their creation and removal.
	QuietSandboxes bool
	// NRISocket is the NRI socket; empty without NRI.
	NRISocket string
	// ShowsAdjusted reports whether the status of a new container shows the adjustment of a
	// plugin.
	ShowsAdjusted bool
	// StartsRefused reports whether the runtime ignores a plugin's refusal of a start.
	StartsRefused bool
}

// Run runs the suite. It removes all pods and containers that it creates.
func Run(t *testing.T, n Node) {
	for _, test := range []struct {
		name string
		run  func(*bench)
	}{
		{"pod", (*bench).podStatus},
		{"container", (*bench).containerStates},
		{"attempts", (*bench).attempts},
		{"update", (*bench).update},
		{"refused update", (*bench).refusal},
		{"update before the start", (*bench).updateCreated},
		{"update of memory nodes", (*bench).updateMems},
		{"memory nodes before the start", (*bench).memsCreated},
		{"stop", (*bench).stop},
		{"stop before the start", (*bench).stopCreated},
		{"stop of the pod before the start", (*bench).stopPodCreated},
		{"events", (*bench).events},
		{"adjustment by a plugin", (*bench).adjustment},
		{"override by a plugin", (*bench).override},
		{"refusal by a plugin", (*bench).refusals},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(&bench{T: t, Node: n}) })
	}
}

// limit is the maximum time of each wait. The runtime may run in an emulated machine.
const limit = 3 * time.Minute

type bench struct {
	*testing.T
	Node
}

const uid = "5a1c0de0-0001-4002-8003-00000000000f"

func podSpec() testnode.PodSpec {
	return testnode.PodSpec{
		UID: uid, Namespace: "runtimetest", Name: "pod", QoS: "burstable",
		Annotations: map[string]string{"target.workload.openshift.io/management": `{"effect":"PreferredDuringScheduling"}`},
		Resources:   cri.Resources{Shares: 3072, Quota: 300_000, Period: 100_000},
	}
}

func containerSpec() testnode.ContainerSpec {
	return testnode.ContainerSpec{Name: "main", Attempt: 2, Resources: cri.Resources{Shares: 2048, Quota: 150_000, Period: 100_000}}
}

// pod runs a pod until the end of the test.
func (b *bench) pod() string {
	b.Helper()
	id, err := b.Runtime.RunPod(podSpec())
	b.must(err)
	b.Cleanup(func() {
		if _, err := b.Client.PodStatus(context.Background(), id); errors.Is(err, cri.ErrNotFound) {
			return // removed by the test
		}
		b.must(b.Runtime.StopPod(id))
		b.must(b.Runtime.RemovePod(id))
	})
	return id
}

func (b *bench) container(pod string) string {
	b.Helper()
	id, err := b.Runtime.CreateContainer(pod, containerSpec())
	b.must(err)
	return id
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) status(id string) cri.Container {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), limit)
	defer cancel()
	c, err := b.Client.ContainerStatus(ctx, id)
	b.must(err)
	return c
}

// cgroup reads the cgroup of a container or sandbox.
func (b *bench) cgroup(cgroupsPath string) cgroup.State {
	b.Helper()
	p, err := cgroup.ContainerPath(cgroupsPath, b.Driver)
	b.must(err)
	s, err := b.Cgroups.Read(p)
	b.must(err)
	return s
}

func (b *bench) exists(cgroupsPath string) bool {
	b.Helper()
	p, err := cgroup.ContainerPath(cgroupsPath, b.Driver)
	b.must(err)
	_, err = b.Cgroups.Read(p)
	if err != nil && !errors.Is(err, cgroup.ErrGone) {
		b.Fatal(err)
	}
	return err == nil
}

func (b *bench) podStatus() {
	id := b.pod()
	want := podSpec()
	pods, _, err := b.Client.List(b.Context())
	b.must(err)
	var listed cri.Pod
	for _, p := range pods {
		if p.ID == id {
			listed = p
		}
	}
	got, err := b.Client.PodStatus(b.Context(), id)
	b.must(err)
	for _, p := range []cri.Pod{listed, got} {
		if p.ID != id || p.UID != want.UID || p.Namespace != want.Namespace || p.Name != want.Name || !p.Ready {
			b.Errorf("pod %+v; want %+v, ready", p, want)
		}
		if diff := cmp.Diff(want.Annotations, p.Annotations); diff != "" {
			b.Errorf("annotations (-want +got):\n%s", diff)
		}
		if age := time.Since(p.CreatedAt); age < 0 || age > limit {
			b.Errorf("created %v ago", age)
		}
	}
	if listed.Detailed || !got.Detailed {
		b.Errorf("detailed: %v in the list, %v in the status", listed.Detailed, got.Detailed)
	}
	if got.Resources != want.Resources {
		b.Errorf("resources %+v; want %+v", got.Resources, want.Resources)
	}
	if got.PID <= 0 {
		b.Errorf("PID %d; want one", got.PID)
	}
	if s := b.cgroup(got.CgroupsPath); !s.Populated {
		b.Errorf("the cgroup of the sandbox (%s) is not populated", got.CgroupsPath)
	}
	dir, err := cgroup.PodPath(got.CgroupParent, b.Driver)
	b.must(err)
	scope, err := cgroup.ContainerPath(got.CgroupsPath, b.Driver)
	b.must(err)
	if scope.Parent() != dir {
		b.Errorf("the sandbox is in %s; want it below the cgroup parent %s", scope, dir)
	}
	b.must(b.Runtime.StopPod(id))
	if got, err := b.Client.PodStatus(b.Context(), id); err != nil || got.Ready {
		b.Errorf("status of the stopped pod: ready %v, %v; want it not ready", got.Ready, err)
	}
	b.must(b.Runtime.RemovePod(id))
	if _, err := b.Client.PodStatus(b.Context(), id); !errors.Is(err, cri.ErrNotFound) {
		b.Errorf("status of the removed pod: %v; want ErrNotFound", err)
	}
}

func (b *bench) containerStates() {
	pod := b.pod()
	id := b.container(pod)
	spec := containerSpec()
	for _, step := range []struct {
		do     func(string) error
		state  cri.State
		cgroup bool
	}{
		{func(string) error { return nil }, cri.Created, b.CgroupAtCreate},
		{b.Runtime.StartContainer, cri.Running, true},
		{b.Runtime.StopContainer, cri.Exited, false},
	} {
		b.must(step.do(id))
		_, containers, err := b.Client.List(b.Context())
		b.must(err)
		var listed cri.Container
		for _, c := range containers {
			if c.ID == id {
				listed = c
			}
		}
		got := b.status(id)
		for _, c := range []cri.Container{listed, got} {
			if c.ID != id || c.PodID != pod || c.Name != spec.Name || c.State != step.state {
				b.Errorf("container %+v; want %+v of pod %s, %v", c, spec, pod, step.state)
			}
		}
		if got.Requested != spec.Resources || got.Recorded != spec.Resources {
			b.Errorf("%v: requested %+v, recorded %+v; want %+v", step.state, got.Requested, got.Recorded, spec.Resources)
		}
		if (got.PID > 0) != step.cgroup {
			b.Errorf("%v: PID %d", step.state, got.PID)
		}
		if exists := b.exists(got.CgroupsPath); exists != step.cgroup {
			b.Errorf("%v: cgroup exists: %v; want %v", step.state, exists, step.cgroup)
		}
	}
	b.must(b.Runtime.RemoveContainer(id))
	if _, err := b.Client.ContainerStatus(b.Context(), id); !errors.Is(err, cri.ErrNotFound) {
		b.Errorf("status of the removed container: %v; want ErrNotFound", err)
	}
}

// attempts checks that an exited container keeps its name and attempt until its removal. Another
// creation fails or returns the same container.
func (b *bench) attempts() {
	pod := b.pod()
	first := b.container(pod)
	b.must(b.Runtime.StartContainer(first))
	b.must(b.Runtime.StopContainer(first))
	if id, err := b.Runtime.CreateContainer(pod, containerSpec()); err == nil && id != first {
		b.Errorf("container %s has the name and attempt of %s, which is still there", id, first)
	}
	b.must(b.Runtime.RemoveContainer(first))
	b.container(pod)
}

func (b *bench) recordedCPUs(id string, want cpuset.Set) cri.Container {
	b.Helper()
	c := b.status(id)
	if got, err := c.RecordedCPUs(); err != nil || !got.Equal(want) {
		b.Errorf("recorded CPUs %q, %v; want %q", got, err, want)
	}
	return c
}
