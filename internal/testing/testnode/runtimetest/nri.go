package runtimetest

import (
	"context"
	"errors"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/nri"
)

// plugin is an nri.Handler with fixed answers.
type plugin struct {
	reply        nri.Reply     // to Create
	refused      error         // to Create
	startRefused error         // to Start
	instead      cri.Resources // to Update
	starts       func()        // called in Start
}

func (p *plugin) Synchronize(context.Context, []cri.Pod, []cri.Container) error { return nil }
func (p *plugin) ResizePod(string, cri.Resources)                               {}
func (p *plugin) RunPod(cri.Pod)                                                {}
func (p *plugin) StopPod(string)                                                {}
func (p *plugin) RemovePod(string)                                              {}
func (p *plugin) Create(context.Context, cri.Pod, cri.Container) (nri.Reply, error) {
	return p.reply, p.refused
}
func (p *plugin) Start(context.Context, string) error {
	if p.starts != nil {
		p.starts()
	}
	return p.startRefused
}
func (p *plugin) Update(context.Context, string, cri.Resources) (cri.Resources, error) {
	return p.instead, nil
}
func (p *plugin) Stop(string)   {}
func (p *plugin) Remove(string) {}

// connect connects p to the runtime until the end of the test.
func (b *bench) connect(p *plugin) {
	b.Helper()
	if b.NRISocket == "" {
		b.Skip("the runtime has no NRI")
	}
	ctx, cancel := context.WithCancel(context.Background())
	states, done := make(chan nri.State, 100), make(chan error, 1)
	go func() {
		done <- nri.Run(ctx, nri.Options{Socket: b.NRISocket, Handler: p, State: func(s nri.State, err error) {
			b.Logf("NRI %v: %v", s, err)
			states <- s
		}})
	}()
	b.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			b.Errorf("Run = %v; want its context's error", err)
		}
	})
	for tooLong := time.After(limit); ; {
		select {
		case s := <-states:
			if s == nri.Connected {
				return
			}
		case <-tooLong:
			b.Fatal("the runtime takes no plugin")
		}
	}
}

// adjustment checks that the reply to a creation is in the record and in the cgroup, as are its
// updates of other containers. The status shows the adjustment immediately, or after the first
// update.
func (b *bench) adjustment() {
	pod := b.pod()
	spec := containerSpec()
	spec.Name = "other"
	other, err := b.Runtime.CreateContainer(pod, spec)
	b.must(err)
	b.must(b.Runtime.StartContainer(other))

	p := &plugin{reply: nri.Reply{
		Adjustment: nri.Adjustment{CPUs: cpuset.Range(2, 3), Mems: cpuset.Of(0), Shares: 512, Unlimited: true, Env: map[string]string{"CPUS": "2-3"}},
		Updates:    []nri.Update{{Container: "none", CPUs: cpuset.Of(1)}, {Container: other, CPUs: cpuset.Range(0, 1)}},
	}}
	b.connect(p)
	id := b.container(pod)
	want := cri.Resources{Shares: 512, Quota: -1, Period: 100_000, CPUs: "2-3", Mems: "0"}
	requested := containerSpec().Resources
	if b.ShowsAdjusted {
		requested = want
	}
	if c := b.status(id); c.Recorded != want || c.Requested != requested {
		b.Errorf("recorded %+v, requested %+v; want %+v, %+v", c.Recorded, c.Requested, want, requested)
	}
	o := b.recordedCPUs(other, cpuset.Range(0, 1))
	if s := b.cgroup(o.CgroupsPath); !s.CPUs.Equal(cpuset.Range(0, 1)) {
		b.Errorf("cpuset.cpus of the other container: %q; want 0-1", s.CPUs)
	}
	path, err := cgroup.ContainerPath(b.status(id).CgroupsPath, b.Driver)
	b.must(err)
	p.starts = func() { // while the first process waits
		if s, err := b.Cgroups.Read(path); err != nil || !s.Effective.Equal(cpuset.Range(2, 3)) || !s.Populated {
			b.Errorf("before the entrypoint: effective CPUs %q, populated %v, %v; want 2-3, true", s.Effective, s.Populated, err)
		}
	}
	b.must(b.Runtime.StartContainer(id))
	if s := b.cgroup(b.status(id).CgroupsPath); !s.Effective.Equal(cpuset.Range(2, 3)) || s.Quota > 0 {
		b.Errorf("effective CPUs %q, quota %d; want 2-3 and none", s.Effective, s.Quota)
	}
	b.must(b.Client.UpdateCPUs(b.Context(), id, cpuset.Of(3)))
	want.CPUs = "3"
	if c := b.status(id); c.Recorded != want || c.Requested != want {
		b.Errorf("after an update: recorded %+v, requested %+v; want %+v", c.Recorded, c.Requested, want)
	}
}

// override checks that a plugin's answer to an update replaces the fields that it contains, and
// no other.
func (b *bench) override() {
	id := b.container(b.pod())
	b.must(b.Runtime.StartContainer(id))
	b.connect(&plugin{instead: cri.Resources{CPUs: "1"}})
	b.must(b.Client.UpdateCPUs(b.Context(), id, cpuset.Range(2, 3)))
	c := b.recordedCPUs(id, cpuset.Of(1))
	if s := b.cgroup(c.CgroupsPath); !s.CPUs.Equal(cpuset.Of(1)) {
		b.Errorf("cpuset.cpus %q; want 1", s.CPUs)
	}
	if got := without(c.Recorded); got != containerSpec().Resources {
		b.Errorf("other records %+v; want %+v", got, containerSpec().Resources)
	}
}

// refusals checks that a container refused at its creation does not exist. A container refused at
// its start does not start, unless the runtime ignores the refusal.
func (b *bench) refusals() {
	pod := b.pod()
	p := &plugin{refused: errors.New("4 CPUs wanted, 2 free")}
	b.connect(p)
	if id, err := b.Runtime.CreateContainer(pod, containerSpec()); err == nil {
		b.Errorf("container %s was created; want it refused", id)
	}
	_, containers, err := b.Client.List(b.Context())
	b.must(err)
	for _, c := range containers {
		if c.PodID == pod {
			b.Errorf("container %+v of the pod whose only container was refused", c)
		}
	}
	p.refused, p.startRefused = nil, errors.New("no partition")
	id := b.container(pod)
	if err := b.Runtime.StartContainer(id); (err == nil) != b.StartsRefused {
		b.Errorf("start of a container that a plugin holds back: %v", err)
	}
	want := cri.Exited
	if b.StartsRefused {
		want = cri.Running
	}
	if c := b.status(id); c.State != want || b.exists(c.CgroupsPath) != b.StartsRefused {
		b.Errorf("container %+v; want it %v", c, want)
	}
}
