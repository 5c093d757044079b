package daemon

import (
	"errors"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/requests"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/waits"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/nri"
)

// TestCreateWaitsForTheKubelet checks that the reply waits for the nodes of the container's
// devices, within the runtime's timeout.
func TestCreateWaitsForTheKubelet(t *testing.T) {
	n := newNode(t)
	n.Kubelet = nodefixture.NewKubelet()
	a := n.start().asker()
	pod := ofPod("e", "default", "guaranteed", 2, nil)
	n.Kubelet.Admit("default/e/app", 1)
	release := n.Kubelet.Hang()
	answer := make(chan nri.Reply, 1)
	go func() {
		reply, err := a.create(pod, a.container(pod, "app", nodefixture.WholeCPUs(2)))
		if err != nil {
			t.Error(err)
		}
		answer <- reply
	}()
	n.Eventually("the kubelet is asked", func() bool {
		calls, _ := n.Kubelet.Calls()
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
	release = n.Kubelet.Hang()
	defer release()
	pod = ofPod("f", "default", "guaranteed", 2, nil)
	reply = a.mustCreate(pod, a.container(pod, "app", nodefixture.WholeCPUs(2)))
	if reply.Adjustment.Env["CPUPOOL_EXCLUSIVE"] != "true" {
		t.Errorf("without the kubelet's word it gets %v", reply.Adjustment.Env)
	}
	a.view("it is told", func(v *telemetry.View) bool { return v.Problems["HintsMissing"] == 1 })
}

// TestTimeoutDuringAPass checks that a request which times out during a pass gets its answer
// from the next pass, which decides without the kubelet.
func TestTimeoutDuringAPass(t *testing.T) {
	n := newNode(t)
	n.Kubelet = nodefixture.NewKubelet()
	a := n.start().asker()
	defer n.Kubelet.Hang()()
	pod := ofPod("e", "default", "guaranteed", 2, nil)
	c := a.container(pod, "app", nodefixture.WholeCPUs(2))
	var answer <-chan waits.Reply[nri.Reply]
	a.inspectOnly(func(l *Loop) {
		q := requests.NewCreate(pod, c, l.now(), nil)
		answer = q.Reply()
		createRequest{q}.apply(l)
		l.pass()
		a.clock.skipped.Add(int64(waits.Timeout))
		if l.answerHooks(l.now()); len(answer) > 0 {
			t.Errorf("answered after the pass before the timeout: %+v", <-answer)
		}
		l.pass()
		l.answerHooks(l.now())
	})
	if c := nodefixture.Receive(n.Node, "answer", answer); c.Err != nil || c.Value.Adjustment.CPUs.Len() != 2 {
		t.Errorf("answer %+v; want two CPUs", c)
	}
}

// TestStrictPolicyIsNotGuessed checks that a container under a strict topology policy is not
// created without the kubelet's answer.
func TestStrictPolicyIsNotGuessed(t *testing.T) {
	n := newNode(t)
	n.Kubelet = nodefixture.NewKubelet()
	n.YAML = strings.Replace(nodefixture.PoolsYAML, "  cpus: 4-7\n", "  cpus: 4-7\n  options: {topology-policy: restricted}\n", 1)
	a := n.start().asker()
	n.Kubelet.Fail(errors.New("the kubelet restarts"))
	pod := ofPod("e", "default", "guaranteed", 2, nil)
	var reply nri.Reply
	var err error
	c := a.container(pod, "app", nodefixture.WholeCPUs(2))
	a.skipDuring(waits.Timeout, "an answer", func() { reply, err = a.create(pod, c) })
	if err == nil || !strings.Contains(err.Error(), "kubelet does not report") {
		t.Errorf("Create = %+v, %v; want that the kubelet does not report", reply, err)
	}
	n.Kubelet.Admit("default/e/app", 1)
	n.Kubelet.Fail(nil)
	n.Eventually("created when the kubelet tells", func() bool {
		_, err := a.create(pod, a.container(pod, "app", nodefixture.WholeCPUs(2)))
		return err == nil
	})
}

// TestNRIVanishesMidRequest checks that a container which the runtime creates without the reply
// is placed when CRI reports it.
func TestNRIVanishesMidRequest(t *testing.T) {
	n := newNRINode(t)
	n.Kubelet = nodefixture.NewKubelet()
	n.YAML = nodefixture.CarvedYAML
	r := n.start()
	r.connected()
	shared := n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	r.quiet()
	release := n.Kubelet.Hang()
	pod := n.RunPod("e", "default", "guaranteed", 2, nil)
	made := make(chan string)
	go func() {
		id, err := n.Runtime.CreateContainer(pod, testnode.ContainerSpec{Name: "app", Resources: nodefixture.WholeCPUs(2)})
		if err != nil {
			t.Error(err)
		}
		made <- id
	}()
	n.Eventually("the request waits", func() bool {
		calls, _ := n.Kubelet.Calls()
		return calls > 0
	})
	n.Runtime.NRIDown()
	id := <-made
	if err := n.Runtime.StartContainer(id); err != nil {
		t.Fatal(err)
	}
	release()
	n.Eventually("CPUs of its own", func() bool {
		mine, others := n.State(id).Effective, n.State(shared).Effective
		return mine.Len() == 2 && !mine.Overlaps(others)
	})
	if err := n.Runtime.NRIUp(); err != nil {
		t.Fatal(err)
	}
	r.connected()
	r.quiet()
	n.CheckAssigned()
}

// TestRuntimeRestartsDuringAHandOver checks that records which the runtime has not changed
// before its restart are changed afterwards.
func TestRuntimeRestartsDuringAHandOver(t *testing.T) {
	n := newNRINode(t)
	n.YAML = nodefixture.CarvedYAML
	r := n.start()
	r.connected()
	var shared []string
	for _, uid := range []string{"a", "b", "c"} {
		shared = append(shared, n.RunContainer(n.RunPod(uid, "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512}))
	}
	r.quiet()
	// An owner ends: all containers may use its CPUs, and the runtime stops during their
	// updates.
	pod := n.RunPod("e", "default", "guaranteed", 2, nil)
	n.RunContainer(pod, "app", nodefixture.WholeCPUs(2))
	r.quiet()
	release := n.Runtime.Hang("UpdateContainerResources")
	defer release()
	before := n.Runtime.Calls("UpdateContainerResources")
	if err := n.Runtime.StopPod(pod); err != nil {
		t.Fatal(err)
	}
	if err := n.Runtime.RemovePod(pod); err != nil {
		t.Fatal(err)
	}
	n.Eventually("updates under way", func() bool { return n.Runtime.Calls("UpdateContainerResources") > before })
	n.Runtime.Down()
	release()
	r.view("NRI lost", func(v *telemetry.View) bool { return v.Sources[telemetry.NRI] == telemetry.SourceLost })
	if err := n.Runtime.Up(); err != nil {
		t.Fatal(err)
	}
	r.connected()
	next := n.RunPod("f", "default", "guaranteed", 2, nil)
	id, on := n.BeginContainer(next, "app", nodefixture.WholeCPUs(2))
	if on.Len() != 2 {
		t.Errorf("the next owner began on %s", on)
	}
	for _, s := range shared {
		if got := n.State(s).Effective; got.Overlaps(n.State(id).Effective) {
			t.Errorf("%s runs on %s, with the owner", s, got)
		}
	}
	r.quiet()
	n.CheckAssigned()
	n.checkSeparate(id, shared...)
}
