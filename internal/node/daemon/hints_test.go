package daemon

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/numahints"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/podresources"
)

// withPolicy returns twoNodesYAML with a topology policy that pods may override.
func withPolicy(policy string) string {
	return strings.Replace(twoNodesYAML, "  cpus: 2-7\n",
		"  cpus: 2-7\n  overrides: [topology-policy]\n  options: {topology-policy: "+policy+"}\n", 1)
}

// twoNodesYAML configures guaranteed CPUs in two NUMA nodes: 2-3 and 4-7.
const twoNodesYAML = `apiVersion: config.cpupoold.io/v1alpha1
kind: CPUPoolConfiguration
partitions:
- type: management
  cpus: "0"
  namespaces: [kube-system]
shared:
  cpus: "1"
guaranteed:
  cpus: 2-7
resyncPeriod: 10m
weightFormula: quadratic
`

// TestHintsDecideTheNode checks that a container gets CPUs near its devices, and that a
// restarted daemon does not ask for containers that hold CPUs.
func TestHintsDecideTheNode(t *testing.T) {
	n := newNode(t)
	n.YAML, n.Kubelet = twoNodesYAML, nodefixture.NewKubelet()
	n.Kubelet.Admit("default/near/app", 1)
	n.Kubelet.Admit("default/far/app", 0)
	r := n.start()
	n.AwaitCPUs(n.RunContainer(n.RunPod("near", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2)), "4-5")
	n.AwaitCPUs(n.RunContainer(n.RunPod("far", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2)), "2-3")
	r.view("source is well", func(v *telemetry.View) bool { return v.Sources[telemetry.PodResources] == telemetry.SourceOK })
	r.quiet()
	calls, _ := n.Kubelet.Calls()
	r.stop()
	r = n.start()
	r.quiet()
	if again, most := n.Kubelet.Calls(); again != calls || most != 1 {
		t.Errorf("%d questions after a restart, %d at once; want none for containers that have CPUs", again-calls, most)
	}
}

// TestSilentKubeletStallsNobody checks that a container waits in the shared pool for a kubelet
// that does not answer, no longer than the timeout, and that other containers do not wait.
func TestSilentKubeletStallsNobody(t *testing.T) {
	n := newNode(t)
	n.YAML, n.Kubelet = twoNodesYAML, nodefixture.NewKubelet()
	defer n.Kubelet.Hang()()
	r := n.start()
	started := n.clock.now()
	excl := n.RunContainer(n.RunPod("e", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	n.AwaitCPUs(excl, "1")
	shared := n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "app", nodefixture.WholeCPUs(1))
	n.AwaitCPUs(shared, "1")
	if waited := n.clock.now().Sub(started); waited > numahints.Timeout {
		t.Errorf("the other container waited for %v", waited)
	}
	r.skip(numahints.Timeout / 2)
	r.inspect(func(*Loop) {}) // a pass of this time has ended when the next one returns
	r.inspect(func(*Loop) {
		if got := n.State(excl).Effective.String(); got != "1" {
			t.Errorf("the container waited for less than %v, and is on %s; want 1", numahints.Timeout/2, got)
		}
	})
	r.skip(numahints.Timeout)
	n.Eventually("CPUs without hints", func() bool { return n.State(excl).Effective.Len() == 2 })
	r.view("source is lost", func(v *telemetry.View) bool { return v.Sources[telemetry.PodResources] == telemetry.SourceLost })
	if said := n.Logged("the kubelet does not report NUMA nodes of devices and memory"); len(said) != 1 {
		t.Errorf("%d log entries about the silent kubelet; want 1", len(said))
	}
	if _, most := n.Kubelet.Calls(); most != 1 {
		t.Errorf("%d questions at once; want 1", most)
	}
	n.CheckAssigned()
}

// TestNoKubeletMakesNobodyWait checks that no container waits on a node without a kubelet.
func TestNoKubeletMakesNobodyWait(t *testing.T) {
	n := newNode(t)
	n.YAML, n.Kubelet = twoNodesYAML, nodefixture.NewKubelet()
	n.Kubelet.Fail(podresources.ErrNoKubelet)
	r := n.start()
	started := n.clock.now()
	excl := n.RunContainer(n.RunPod("e", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	n.Eventually("exclusive CPUs", func() bool { return n.State(excl).Effective.Len() == 2 })
	if waited := n.clock.now().Sub(started); waited >= numahints.Timeout {
		t.Errorf("waited for %v", waited)
	}
	r.quiet()
	if _, shown := r.loop.publisher.Metrics().Sources[telemetry.PodResources]; shown {
		t.Error("the status shows a source for a missing kubelet")
	}
}

func hintProblems(count int) func(*telemetry.View) bool {
	return func(v *telemetry.View) bool { return v.Problems["HintsMissing"] == count }
}

// TestStrictPolicyWaitsForHints checks that a container under a strict topology policy gets no
// exclusive CPUs before the kubelet reports its nodes.
func TestStrictPolicyWaitsForHints(t *testing.T) {
	for name, err := range map[string]error{
		"silent": podresources.ErrUnavailable, "busy": errors.New("too many requests"), "absent": podresources.ErrNoKubelet, "not listed": nil,
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.YAML, n.Kubelet = strings.Replace(withPolicy("single-numa-node"), "  cpus: 2-7\n", "  cpus: 2-7\n  onRefusal: fail\n", 1), nodefixture.NewKubelet()
			n.Kubelet.Fail(err)
			r := n.start()
			r.quiet()
			started := n.clock.now()
			excl := n.RunContainer(n.RunPod("e", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
			shrugs := map[string]string{"cpupoold.io/topology-policy": "none"}
			other := n.RunContainer(n.RunPod("other", "default", "guaranteed", 2, shrugs), "app", nodefixture.WholeCPUs(2))
			n.Eventually("CPUs of the container without a policy", func() bool { return n.State(other).Effective.Len() == 2 })
			r.viewWithin(2*numahints.Timeout, "problem", hintProblems(1))
			if waited := n.clock.now().Sub(started); waited < numahints.Timeout {
				t.Errorf("a problem after %v", waited)
			}
			n.AwaitCPUs(excl, "1")
			n.Kubelet.Fail(nil)
			n.Kubelet.Admit("default/e/app", 1)
			r.within(time.Minute, "CPUs near the device", func() bool {
				cpus := n.State(excl).Effective
				return cpus.Len() == 2 && cpus.IsSubsetOf(cpuset.Range(4, 7))
			})
			r.view("problem over", hintProblems(0))
			if calls := n.Runtime.Calls("StopContainer"); calls != 0 {
				t.Errorf("%d containers stopped; want 0", calls)
			}
			n.CheckAssigned()
		})
	}
}

// TestKubeletThatServesNoHints checks that the daemon repeats the question to a kubelet without
// hints with each listing only.
func TestKubeletThatServesNoHints(t *testing.T) {
	n := newNode(t)
	n.YAML, n.Kubelet = withPolicy("restricted"), nodefixture.NewKubelet()
	n.Kubelet.Fail(podresources.ErrNotSupported)
	r := n.start()
	r.view("event stream", func(v *telemetry.View) bool { return v.Sources[telemetry.CRIEvents] == telemetry.SourceOK }) // it leads to a listing
	r.quiet()
	strict := n.RunContainer(n.RunPod("e", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	r.viewWithin(2*numahints.Timeout, "problem", hintProblems(1))
	calls, _ := n.Kubelet.Calls()
	relaxed := map[string]string{"cpupoold.io/topology-policy": "best-effort"}
	other := n.RunContainer(n.RunPod("other", "default", "guaranteed", 2, relaxed), "app", nodefixture.WholeCPUs(2))
	r.within(2*numahints.Timeout, "CPUs without hints", func() bool { return n.State(other).Effective.Len() == 2 })
	r.viewWithin(2*numahints.Timeout, "both are problems", hintProblems(2))
	r.quiet()
	if again, _ := n.Kubelet.Calls(); again != calls {
		t.Errorf("asked %d times more", again-calls)
	}
	n.AwaitCPUs(strict, "1")
	n.Kubelet.Fail(nil)
	n.Kubelet.Admit("default/e/app", 1)
	r.loop.box.Post(streamChanged{state: cri.Connected}) // leads to a listing
	n.Eventually("CPUs with hints", func() bool { return n.State(strict).Effective.Len() == 2 })
	r.view("the other's stays", hintProblems(1))
}

// TestMissingHintsAreAProblem checks that the problem of a container without an answer lasts
// until it ends, also across a restart of the daemon.
func TestMissingHintsAreAProblem(t *testing.T) {
	n := newNode(t)
	n.YAML, n.Kubelet = twoNodesYAML, nodefixture.NewKubelet()
	n.Kubelet.Fail(podresources.ErrUnavailable)
	r := n.start()
	r.quiet()
	pod := n.RunPod("e", "default", "guaranteed", 2, nil)
	excl := n.RunContainer(pod, "app", nodefixture.WholeCPUs(2))
	r.viewWithin(2*numahints.Timeout, "problem", hintProblems(1))
	n.AwaitCPUs(excl, "2-3")
	n.Kubelet.Fail(nil)
	n.Kubelet.Admit("default/e/app", 1)
	n.Kubelet.Admit("default/next/app", 1)
	n.AwaitCPUs(n.RunContainer(n.RunPod("next", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2)), "4-5")
	r.quiet()
	r.view("problem stays", hintProblems(1))
	n.AwaitCPUs(excl, "2-3")
	n.Eventually("journal on disk", func() bool { return len(n.Journal().Unhinted) == 1 })
	r.stop()
	r = n.start()
	r.quiet()
	r.view("problem stays", hintProblems(1))
	if err := n.Runtime.StopPod(pod); err != nil {
		t.Fatal(err)
	}
	r.view("problem gone", hintProblems(0))
	n.Eventually("journal on disk", func() bool { return len(n.Journal().Unhinted) == 0 })
}
