package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/actor"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/waits"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/nri"
)

// asker sends the runtime's requests to the daemon, without a connection.
type asker struct {
	*running
	hooks hooks
	made  int
}

func (r *running) asker() *asker {
	r.view("planned", func(v *telemetry.View) bool { return v.Ready })
	return &asker{running: r, hooks: hooks{r.loop.box.Post, r.clock.now}}
}

// ofPod returns a pod as NRI describes it.
func ofPod(uid, namespace, qos string, cpus int, annotations map[string]string) cri.Pod {
	slice := "kubepods-pod" + uid + ".slice"
	if qos != "guaranteed" {
		slice = "kubepods-" + qos + "-pod" + uid + ".slice"
	}
	return cri.Pod{ID: "sandbox-" + uid, UID: uid, Namespace: namespace, Name: uid, Ready: true, CreatedAt: time.Now(),
		CgroupParent: slice, CgroupsPath: slice + ":cri-containerd:sandbox-" + uid, Annotations: annotations, Resources: nodefixture.WholeCPUs(cpus)}
}

func (a *asker) container(p cri.Pod, name string, r cri.Resources) cri.Container {
	a.made++
	id := fmt.Sprintf("%s-%s-%d", p.UID, name, a.made)
	return cri.Container{ID: id, PodID: p.ID, Name: name, State: cri.Created, CreatedAt: time.Now(),
		CgroupsPath: p.CgroupParent + ":cri-containerd:" + id, Requested: r, Recorded: r}
}

// create requests a container. The daemon's own limit counts, not the runtime's limit.
func (a *asker) create(p cri.Pod, c cri.Container) (nri.Reply, error) {
	ctx, cancel := context.WithTimeout(a.T.Context(), nodefixture.Timeout)
	defer cancel()
	return a.hooks.Create(ctx, p, c)
}

func (a *asker) mustCreate(p cri.Pod, c cri.Container) nri.Reply {
	a.T.Helper()
	reply, err := a.create(p, c)
	if err != nil {
		a.T.Fatalf("%v\nlog:\n%s", err, a.Logs)
	}
	return reply
}

func TestCreateAnswersWithThePool(t *testing.T) {
	a := newNode(t).start().asker()
	for _, test := range []struct {
		pod  cri.Pod
		name string
		res  cri.Resources
		want nri.Adjustment
	}{
		{ofPod("e", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2), nri.Adjustment{CPUs: cpuset.Range(4, 5), Unlimited: true, Env: map[string]string{
			"CPUPOOL_CPUS": "4-5", "CPUPOOL_POOL": "guaranteed", "CPUPOOL_EXCLUSIVE": "true", "CPUPOOL_NODES": "1", "CPUPOOL_SHARED_CPUS": "2-3",
			"OPENSHIFT_ISOLATED_CPUS": "4-5",
		}}},
		{ofPod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512}, nri.Adjustment{CPUs: cpuset.Range(2, 3), Env: map[string]string{
			"CPUPOOL_CPUS": "2-3", "CPUPOOL_POOL": "shared", "CPUPOOL_EXCLUSIVE": "false", "CPUPOOL_NODES": "0", "CPUPOOL_SHARED_CPUS": "2-3",
		}}},
		{ofPod("m", "kube-system", "besteffort", 0, nodefixture.Management(map[string]int{"app": 409})), "app", cri.Resources{Shares: 2}, nri.Adjustment{CPUs: cpuset.Range(0, 1), Shares: 409, Env: map[string]string{
			"CPUPOOL_CPUS": "0-1", "CPUPOOL_POOL": "management", "CPUPOOL_EXCLUSIVE": "false", "CPUPOOL_NODES": "0", "CPUPOOL_SHARED_CPUS": "2-3",
		}}},
		{ofPod("l", "kube-system", "besteffort", 0, nodefixture.LimitedManagement("app", 409, 500)), "app", cri.Resources{Shares: 2}, nri.Adjustment{CPUs: cpuset.Range(0, 1), Shares: 409, Quota: 50_000, Period: 100_000, Env: map[string]string{
			"CPUPOOL_CPUS": "0-1", "CPUPOOL_POOL": "management", "CPUPOOL_EXCLUSIVE": "false", "CPUPOOL_NODES": "0", "CPUPOOL_SHARED_CPUS": "2-3",
		}}},
	} {
		reply := a.mustCreate(test.pod, a.container(test.pod, test.name, test.res))
		if diff := cmp.Diff(nri.Reply{Adjustment: test.want}, reply); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.pod.UID, diff)
		}
	}
	a.Eventually("originals of all four", func() bool {
		j := a.Journal()
		return len(j.Originals) == 8 // four cpusets, two weights, one quota of each kind
	})
}

// TestCreateMovesOthersInTheReply checks that containers have left the CPUs of a new owner, by
// the kernel's values, when the reply is sent. The reply has their updates for the runtime.
func TestCreateMovesOthersInTheReply(t *testing.T) {
	n := newNode(t)
	n.YAML = nodefixture.CarvedYAML
	r := n.start()
	one := n.RunContainer(n.RunPod("s1", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	two := n.RunContainer(n.RunPod("s2", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	n.AwaitCPUs(one, "2-7")
	n.AwaitCPUs(two, "2-7")
	r.quiet()
	a := r.asker()
	pod := ofPod("e", "default", "guaranteed", 2, nil)
	reply := a.mustCreate(pod, a.container(pod, "app", nodefixture.WholeCPUs(2)))
	mine := reply.Adjustment.CPUs
	rest := cpuset.Range(2, 7).Difference(mine)
	if mine.Len() != 2 {
		t.Fatalf("CPUs = %s; want two", mine)
	}
	for _, id := range []string{one, two} {
		if got := n.State(id).Effective; !got.Equal(rest) {
			t.Errorf("at the answer %s runs on %s; want %s", id, got, rest)
		}
	}
	got := make(map[string]string)
	for _, u := range reply.Updates {
		got[u.Container] = u.CPUs.String()
	}
	if diff := cmp.Diff(map[string]string{one: rest.String(), two: rest.String()}, got); diff != "" {
		t.Errorf("updates (-want +got):\n%s", diff)
	}
	// The runtime does not make these updates, as after a failure: the daemon notices that, and
	// makes them over CRI.
	for _, id := range []string{one, two} {
		r.within(time.Second, "recorded over CRI", func() bool { // half a second for each update
			c, err := n.Client.ContainerStatus(t.Context(), id)
			return err == nil && c.Recorded.CPUs == rest.String()
		})
	}
	n.Eventually("broken promises are told", func() bool {
		return len(n.Logged("runtime skipped an NRI update; retrying over CRI")) == 2
	})
	// The containers are in no other reply until a worker has made the updates.
	r.quiet()
	pod = ofPod("e2", "default", "guaranteed", 1, nil)
	if reply := a.mustCreate(pod, a.container(pod, "app", nodefixture.WholeCPUs(1))); len(reply.Updates) != 2 {
		t.Errorf("updates = %v; want both again, since CRI got through to them", reply.Updates)
	}
}

// TestCreateGivesNothingThatSomebodyRunsOn checks that a container that cannot be moved keeps
// its CPUs, and that the refusal of the new owner names it.
func TestCreateGivesNothingThatSomebodyRunsOn(t *testing.T) {
	for _, onRefusal := range []string{"fail", "shared"} {
		t.Run(onRefusal, func(t *testing.T) {
			n := newNode(t)
			n.YAML = strings.Replace(nodefixture.CarvedYAML, "  floor: 2\n", "  floor: 2\n  onRefusal: "+onRefusal+"\n", 1)
			r := n.start()
			stuck := n.RunContainer(n.RunPod("s1", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
			n.AwaitCPUs(stuck, "2-7")
			r.quiet()
			n.makeBusy(stuck)
			a := r.asker()
			pod := ofPod("e", "default", "guaranteed", 2, nil)
			c := a.container(pod, "app", nodefixture.WholeCPUs(2))
			var reply nri.Reply
			var err error
			r.skipDuring(waits.Timeout, "an answer", func() { reply, err = a.create(pod, c) })
			switch {
			case onRefusal == "fail" && (err == nil || !strings.Contains(err.Error(), "are not free yet") || !strings.Contains(err.Error(), "the kubelet retries") || !strings.Contains(err.Error(), stuck)):
				t.Errorf("Create = %+v, %v; want that CPUs are not free, and who has them", reply, err)
			case onRefusal == "shared" && (err != nil || reply.Adjustment.CPUs.Len() != 4 || reply.Adjustment.Env["CPUPOOL_EXCLUSIVE"] != "false"):
				t.Errorf("Create = %+v, %v; want the shared pool", reply, err)
			}
			n.Tree.Intercept(nil)
			pod2 := ofPod("e3", "default", "burstable", 0, nil)
			if reply := a.mustCreate(pod2, a.container(pod2, "app", cri.Resources{Shares: 100})); reply.Adjustment.CPUs.Len() != 4 {
				t.Errorf("a shared container gets %s; want the pool without the CPUs of the waiting owner", reply.Adjustment.CPUs)
			}
		})
	}
}

// TestRefusedIsNotCreated checks that repeated requests of the kubelet count as one refusal,
// until enough CPUs are free CPUs or the pod is gone.
func TestRefusedIsNotCreated(t *testing.T) {
	a := newNode(t).start().asker()
	first := ofPod("a", "default", "guaranteed", 3, nil)
	holder := a.container(first, "app", nodefixture.WholeCPUs(3))
	a.mustCreate(first, holder)
	pod := ofPod("b", "default", "guaranteed", 2, nil)
	for range 3 {
		_, err := a.create(pod, a.container(pod, "app", nodefixture.WholeCPUs(2)))
		if err == nil || !strings.Contains(err.Error(), "default/b, container app") || !strings.Contains(err.Error(), "TooFew") && !strings.Contains(err.Error(), "free") {
			t.Fatalf("Create = %v; want a refusal with its numbers", err)
		}
	}
	a.view("one refusal", func(v *telemetry.View) bool {
		return v.RefusedNow == 1 && refusals(v) == 1 && v.Problems["Refused"] == 1
	})
	if got := a.Logged("refused, and not created"); len(got) != 1 {
		t.Errorf("told %d times; want once", len(got))
	}
	a.hooks.Remove(holder.ID)
	a.hooks.RemovePod(first.ID)
	if reply := a.mustCreate(pod, a.container(pod, "app", nodefixture.WholeCPUs(2))); !reply.Adjustment.CPUs.IsSubsetOf(cpuset.Range(4, 7)) {
		t.Errorf("CPUs = %s; want guaranteed ones", reply.Adjustment.CPUs)
	}
	a.loop.box.Post(systemdReloaded{})
	a.view("no refusal", func(v *telemetry.View) bool { return v.RefusedNow == 0 && v.Problems["Refused"] == 0 })
}

// TestAnswersAreNotHeldUp checks that the daemon replies to NRI in time while all other
// programs that it calls hang.
func TestAnswersAreNotHeldUp(t *testing.T) {
	n := newNode(t)
	n.YAML = nodefixture.CarvedYAML
	n.Kubelet = nodefixture.NewKubelet()
	r := n.start()
	one := n.RunContainer(n.RunPod("s1", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	n.AwaitCPUs(one, "2-7")
	r.quiet()
	a := r.asker()
	release := make(chan struct{})
	defer close(release)
	hang := func(ctx context.Context) event {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return nil
	}
	for i := range 16 { // twice the number of workers of a set
		for _, w := range []actor.Workers[event]{r.loop.workers.Queries, r.loop.workers.Updates, r.loop.workers.Disk} {
			w.Submit(fmt.Sprint("hung", i), hang)
			w.Submit("journal", hang)
		}
	}
	pod := ofPod("e", "default", "guaranteed", 2, nil)
	c := a.container(pod, "app", nodefixture.WholeCPUs(2))
	if reply := a.mustCreate(pod, c); reply.Adjustment.CPUs.Len() != 2 {
		t.Errorf("reply = %+v; want two CPUs", reply)
	}
	ctx, cancel := context.WithTimeout(t.Context(), nodefixture.Timeout)
	defer cancel()
	if err := a.hooks.Start(ctx, c.ID); err != nil {
		t.Error(err)
	}
	if _, err := a.hooks.Update(ctx, one, cri.Resources{Shares: 1024}); err != nil {
		t.Error(err)
	}
	if err := a.hooks.Synchronize(ctx, nil, nil); err != nil {
		t.Error(err)
	}
}

// TestUpdateKeepsThePool checks that another plugin can resize a container and cannot move it.
func TestUpdateKeepsThePool(t *testing.T) {
	n := newNode(t)
	r := n.start()
	shared := n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	mgmt := n.RunContainer(n.RunPod("m", "kube-system", "besteffort", 0, nodefixture.Management(map[string]int{"app": 409})), "app", cri.Resources{Shares: 2})
	bound := n.RunContainer(n.RunPod("l", "kube-system", "besteffort", 0, nodefixture.LimitedManagement("app", 409, 500)), "app", cri.Resources{Shares: 2})
	excl := n.RunContainer(n.RunPod("e", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	n.AwaitCPUs(shared, "2-3")
	n.AwaitCPUs(mgmt, "0-1")
	n.AwaitCPUs(bound, "0-1")
	n.AwaitCPUs(excl, "4-5")
	r.quiet()
	a := r.asker()
	for _, test := range []struct {
		id          string
		asked, want cri.Resources
	}{
		{shared, cri.Resources{CPUs: "0-7"}, cri.Resources{CPUs: "2-3"}},
		{shared, cri.Resources{CPUs: "2-3"}, cri.Resources{}},
		{shared, cri.Resources{Shares: 1024, Quota: 5000, Period: 100000}, cri.Resources{}},
		{mgmt, cri.Resources{Shares: 512}, cri.Resources{Shares: 409}},
		{mgmt, cri.Resources{Quota: 5000, Period: 100000}, cri.Resources{}},
		{bound, cri.Resources{Quota: -1}, cri.Resources{Quota: 50000, Period: 100000}},
		{excl, cri.Resources{CPUs: "6"}, cri.Resources{CPUs: "4-5"}},
		{excl, cri.Resources{Shares: 2048, Quota: 200000, Period: 100000}, cri.Resources{Quota: -1}},
		{"unknown", cri.Resources{CPUs: "6"}, cri.Resources{}},
	} {
		got, err := a.hooks.Update(t.Context(), test.id, test.asked)
		if err != nil || got != test.want {
			t.Errorf("update %s with %+v = %+v, %v; want %+v", test.id, test.asked, got, err, test.want)
		}
	}
}

// TestUpdateKeepsPendingCPUs checks that an update of a container does not write the former CPUs
// of the container. The runtime's record has the former CPUs until the daemon's own update ends.
func TestUpdateKeepsPendingCPUs(t *testing.T) {
	for name, status := range map[string]error{"record known": nil, "record unknown": errors.New("no")} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.YAML = nodefixture.CarvedYAML
			r := n.start()
			shared := n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
			n.AwaitCPUs(shared, "2-7")
			r.quiet()
			release := n.Runtime.Hang("UpdateContainerResources")
			defer release()
			n.Runtime.Fail("ContainerStatus", status)
			a := r.asker()
			pod := ofPod("e", "default", "guaranteed", 2, nil)
			// The fake runtime does not make the updates of this reply.
			mine := a.mustCreate(pod, a.container(pod, "app", nodefixture.WholeCPUs(2))).Adjustment.CPUs
			rest := cpuset.Range(2, 7).Difference(mine).String()
			expect := func(when string) {
				t.Helper()
				for _, asked := range []cri.Resources{{Shares: 1024}, {Mems: "0"}} {
					got, err := a.hooks.Update(t.Context(), shared, asked)
					if want := (cri.Resources{CPUs: rest}); err != nil || got != want {
						t.Errorf("%s: update with %+v = %+v, %v; want %+v", when, asked, got, err, want)
					}
				}
			}
			expect("before the daemon reads the record")
			n.Eventually("the record read", func() bool { return strings.Contains(n.Logs.String(), "runtime skipped an NRI update") })
			expect("after the daemon has read the record")
			n.Runtime.Fail("ContainerStatus", nil)
			release()
			n.Eventually("on record", func() bool { return n.RecordedCPUs(shared) == rest })
			r.quiet()
			if got, err := a.hooks.Update(t.Context(), shared, cri.Resources{Shares: 512}); err != nil || got.CPUs != "" {
				t.Errorf("update after the daemon's own update = %+v, %v; want no CPUs", got, err)
			}
		})
	}
}

// TestResizeIsPickedUp checks that a resize is found although CRI reports no event for it.
func TestResizeIsPickedUp(t *testing.T) {
	n := newNode(t)
	r := n.start()
	excl := n.RunContainer(n.RunPod("e", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	n.AwaitCPUs(excl, "4-5")
	r.quiet()
	a := r.asker()
	if _, err := a.hooks.Update(t.Context(), excl, nodefixture.WholeCPUs(3)); err != nil {
		t.Fatal(err)
	}
	n.AwaitCPUs(excl, "4-6")
}

// TestStartWritesFirst checks that changes since the reply are in the cgroup before the first
// instruction.
func TestStartWritesFirst(t *testing.T) {
	n := newNode(t)
	n.YAML = nodefixture.CarvedYAML
	r := n.start()
	r.quiet()
	a := r.asker()
	sandbox := n.RunPod("s", "default", "burstable", 0, nil)
	// Without CRI events the container is known from NRI alone.
	id, err := n.Runtime.CreateContainer(sandbox, testnode.ContainerSpec{Name: "app", Resources: cri.Resources{Shares: 512}})
	if err != nil {
		t.Fatal(err)
	}
	n.Eventually("known", func() bool { return a.start(id) == nil })
	r.awaitIdle() // a late update of its record would restore its first CPUs: the fake runtime does not ask about updates
	pod := ofPod("e", "default", "guaranteed", 2, nil)
	mine := a.mustCreate(pod, a.container(pod, "app", nodefixture.WholeCPUs(2))).Adjustment.CPUs
	if err := n.Runtime.StartContainer(id); err != nil {
		t.Fatal(err)
	}
	if err := a.start(id); err != nil {
		t.Fatal(err)
	}
	if got := n.State(id).Effective; got.Overlaps(mine) || got.Len() != 4 {
		t.Errorf("at its first instruction the container is on %s; want 2-7 without %s", got, mine)
	}
}

func (a *asker) start(id string) error {
	ctx, cancel := context.WithTimeout(a.T.Context(), nodefixture.Timeout)
	defer cancel()
	return a.hooks.Start(ctx, id)
}
