package daemon

import (
	"errors"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/nri"
)

// TestCreateWaitsForTheKubelet: the answer waits for the nodes of the container's
// devices, and no longer than the runtime's patience allows.
func TestCreateWaitsForTheKubelet(t *testing.T) {
	n := newNode(t)
	n.kubelet = newKubelet()
	a := n.start().asker()
	pod := ofPod("e", "default", "guaranteed", 2, nil)
	n.kubelet.admit("default/e/app", 1)
	release := n.kubelet.hang()
	answer := make(chan nri.Reply, 1)
	go func() {
		reply, err := a.create(pod, a.container(pod, "app", whole(2)))
		if err != nil {
			t.Error(err)
		}
		answer <- reply
	}()
	n.eventually("the kubelet is asked", func() bool {
		calls, _ := n.kubelet.asked()
		return calls > 0
	})
	if len(answer) > 0 {
		t.Error("answered before the kubelet did")
	}
	release()
	reply := <-answer
	if nodes := reply.Adjustment.Env["CPUPOOL_NODES"]; nodes != "1" {
		t.Errorf("CPUs %s in node %s; want those of its device, in node 1", reply.Adjustment.CPUs, nodes)
	}
	release = n.kubelet.hang()
	defer release()
	pod = ofPod("f", "default", "guaranteed", 2, nil)
	reply = a.mustCreate(pod, a.container(pod, "app", whole(2)))
	if reply.Adjustment.Env["CPUPOOL_EXCLUSIVE"] != "true" {
		t.Errorf("without the kubelet's word it gets %v", reply.Adjustment.Env)
	}
	a.view("it is told", func(v *telemetry.View) bool { return v.Problems["HintsMissing"] == 1 })
}

// TestStrictPolicyIsNotGuessed: who may not have CPUs without the kubelet's word is
// not created without it.
func TestStrictPolicyIsNotGuessed(t *testing.T) {
	n := newNode(t)
	n.kubelet = newKubelet()
	n.yaml = strings.Replace(poolsYAML, "  cpus: 4-7\n", "  cpus: 4-7\n  options: {topology-policy: restricted}\n", 1)
	a := n.start().asker()
	n.kubelet.fail(errors.New("the kubelet restarts"))
	pod := ofPod("e", "default", "guaranteed", 2, nil)
	if reply, err := a.create(pod, a.container(pod, "app", whole(2))); err == nil || !strings.Contains(err.Error(), "kubelet does not tell") {
		t.Errorf("Create = %+v, %v; want that the kubelet does not tell", reply, err)
	}
	n.kubelet.admit("default/e/app", 1)
	n.kubelet.fail(nil)
	n.eventually("created when the kubelet tells", func() bool {
		_, err := a.create(pod, a.container(pod, "app", whole(2)))
		return err == nil
	})
}

// TestNRIVanishesMidRequest: the runtime goes on without an answer, and the container
// is placed when the runtime tells of it.
func TestNRIVanishesMidRequest(t *testing.T) {
	n := newNRINode(t)
	n.kubelet = newKubelet()
	n.yaml = carvedYAML
	r := n.start()
	r.connected()
	shared := n.container(n.pod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	r.quiet()
	release := n.kubelet.hang()
	pod := n.pod("e", "default", "guaranteed", 2, nil)
	made := make(chan string)
	go func() {
		id, err := n.runtime.CreateContainer(pod, testnode.ContainerSpec{Name: "app", Resources: whole(2)})
		if err != nil {
			t.Error(err)
		}
		made <- id
	}()
	n.eventually("the request waits", func() bool {
		calls, _ := n.kubelet.asked()
		return calls > 0
	})
	n.runtime.NRIDown()
	id := <-made
	if err := n.runtime.StartContainer(id); err != nil {
		t.Fatal(err)
	}
	release()
	n.eventually("CPUs of its own", func() bool {
		mine, others := n.state(id).Effective, n.state(shared).Effective
		return mine.Len() == 2 && !mine.Overlaps(others)
	})
	if err := n.runtime.NRIUp(); err != nil {
		t.Fatal(err)
	}
	r.connected()
	r.quiet()
	n.checkAll()
}

// TestRuntimeRestartsDuringAHandOver: records that it did not change before are
// changed after.
func TestRuntimeRestartsDuringAHandOver(t *testing.T) {
	n := newNRINode(t)
	n.yaml = carvedYAML
	r := n.start()
	r.connected()
	var shared []string
	for _, uid := range []string{"a", "b", "c"} {
		shared = append(shared, n.container(n.pod(uid, "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512}))
	}
	r.quiet()
	// An owner goes: all may come back to its CPUs, and the runtime is at it when it ends.
	pod := n.pod("e", "default", "guaranteed", 2, nil)
	n.container(pod, "app", whole(2))
	r.quiet()
	release := n.runtime.Hang("UpdateContainerResources")
	defer release()
	before := n.runtime.Calls("UpdateContainerResources")
	if err := n.runtime.StopPod(pod); err != nil {
		t.Fatal(err)
	}
	if err := n.runtime.RemovePod(pod); err != nil {
		t.Fatal(err)
	}
	n.eventually("updates under way", func() bool { return n.runtime.Calls("UpdateContainerResources") > before })
	n.runtime.Down()
	release()
	r.view("NRI lost", func(v *telemetry.View) bool { return v.Sources[telemetry.NRI] == telemetry.SourceLost })
	if err := n.runtime.Up(); err != nil {
		t.Fatal(err)
	}
	r.connected()
	next := n.pod("f", "default", "guaranteed", 2, nil)
	id, on := n.begins(next, "app", whole(2))
	if on.Len() != 2 {
		t.Errorf("the next owner began on %s", on)
	}
	for _, s := range shared {
		if got := n.state(s).Effective; got.Overlaps(n.state(id).Effective) {
			t.Errorf("%s runs on %s, with the owner", s, got)
		}
	}
	r.quiet()
	n.checkAll()
	for _, s := range shared {
		c, err := n.client.ContainerStatus(t.Context(), s)
		if err != nil || c.Recorded.CPUs != n.state(s).Effective.String() {
			t.Errorf("recorded for %s is %q, %v; it runs on %s", s, c.Recorded.CPUs, err, n.state(s).Effective)
		}
	}
}
