package daemon

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/numahints"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/podresources"
)

// fakeKubelet is a PodResources server.
type fakeKubelet struct {
	mu    sync.Mutex // guards the other fields
	nodes map[string]cpuset.Set
	err   error
	gate  chan struct{} // while it is not nil, calls hang
	calls int
	most  int // maximum of concurrent calls
	now   int // calls in progress
}

func newKubelet() *fakeKubelet { return &fakeKubelet{nodes: make(map[string]cpuset.Set)} }

// admit sets the NUMA nodes of a container's devices. The container is namespace/pod/name.
func (k *fakeKubelet) admit(container string, nodes ...int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.nodes[container] = cpuset.Of(nodes...)
}

func (k *fakeKubelet) fail(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = err
}

func (k *fakeKubelet) hang() (release func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	gate := make(chan struct{})
	k.gate = gate
	return sync.OnceFunc(func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.gate = nil
		close(gate)
	})
}

func (k *fakeKubelet) asked() (calls, atOnce int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.calls, k.most
}

func (k *fakeKubelet) List(ctx context.Context) ([]podresources.Container, error) {
	k.mu.Lock()
	k.calls++
	k.now++
	k.most = max(k.most, k.now)
	gate := k.gate
	k.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.now--
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if k.err != nil {
		return nil, k.err
	}
	var all []podresources.Container
	for name, nodes := range k.nodes {
		part := strings.Split(name, "/")
		all = append(all, podresources.Container{Namespace: part[0], Pod: part[1], Name: part[2], Nodes: nodes})
	}
	return all, nil
}

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

// TestHintsDecideTheNode checks that a container gets CPUs near its devices, and that a restarted
// daemon does not ask for containers that hold CPUs.
func TestHintsDecideTheNode(t *testing.T) {
	n := newNode(t)
	n.yaml, n.kubelet = twoNodesYAML, newKubelet()
	n.kubelet.admit("default/near/app", 1)
	n.kubelet.admit("default/far/app", 0)
	r := n.start()
	n.runsOn(n.container(n.pod("near", "default", "guaranteed", 2, nil), "app", whole(2)), "4-5")
	n.runsOn(n.container(n.pod("far", "default", "guaranteed", 2, nil), "app", whole(2)), "2-3")
	r.view("source is well", func(v *telemetry.View) bool { return v.Sources[telemetry.PodResources] == telemetry.SourceOK })
	r.quiet()
	calls, _ := n.kubelet.asked()
	r.stop()
	r = n.start()
	r.quiet()
	if again, most := n.kubelet.asked(); again != calls || most != 1 {
		t.Errorf("%d questions after a restart, %d at once; want none for containers that have CPUs", again-calls, most)
	}
}

// TestSilentKubeletStallsNobody checks that a container waits in the shared pool for a kubelet that
// does not answer, no longer than the timeout, and that other containers do not wait.
func TestSilentKubeletStallsNobody(t *testing.T) {
	n := newNode(t)
	n.yaml, n.kubelet = twoNodesYAML, newKubelet()
	defer n.kubelet.hang()()
	r := n.start()
	started := time.Now()
	excl := n.container(n.pod("e", "default", "guaranteed", 2, nil), "app", whole(2))
	n.runsOn(excl, "1")
	shared := n.container(n.pod("s", "default", "burstable", 0, nil), "app", whole(1))
	n.runsOn(shared, "1")
	if waited := time.Since(started); waited > numahints.Timeout {
		t.Errorf("the other container waited for %v", waited)
	}
	n.eventually("CPUs without hints", func() bool { return n.state(excl).Effective.Len() == 2 })
	if waited := time.Since(started); waited < numahints.Timeout/2 {
		t.Errorf("the container waited for %v only", waited)
	}
	r.view("source is lost", func(v *telemetry.View) bool { return v.Sources[telemetry.PodResources] == telemetry.SourceLost })
	if said := n.logged("the kubelet does not report NUMA nodes of devices and memory"); len(said) != 1 {
		t.Errorf("%d log entries about the silent kubelet", len(said))
	}
	if _, most := n.kubelet.asked(); most != 1 {
		t.Errorf("%d questions at once", most)
	}
	n.checkAll()
}

// TestNoKubeletMakesNobodyWait checks that no container waits on a node without a kubelet.
func TestNoKubeletMakesNobodyWait(t *testing.T) {
	n := newNode(t)
	n.yaml, n.kubelet = twoNodesYAML, newKubelet()
	n.kubelet.fail(hostenv.ErrNoKubelet)
	r := n.start()
	started := time.Now()
	excl := n.container(n.pod("e", "default", "guaranteed", 2, nil), "app", whole(2))
	n.eventually("exclusive CPUs", func() bool { return n.state(excl).Effective.Len() == 2 })
	if waited := time.Since(started); waited >= numahints.Timeout {
		t.Errorf("waited for %v", waited)
	}
	r.quiet()
	if _, shown := r.loop.snapshot.Load().Sources[telemetry.PodResources]; shown {
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
		"silent": podresources.ErrUnavailable, "busy": errors.New("too many requests"), "absent": hostenv.ErrNoKubelet, "not listed": nil,
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.yaml, n.kubelet = strings.Replace(withPolicy("single-numa-node"), "  cpus: 2-7\n", "  cpus: 2-7\n  onRefusal: fail\n", 1), newKubelet()
			n.kubelet.fail(err)
			r := n.start()
			r.quiet()
			started := time.Now()
			excl := n.container(n.pod("e", "default", "guaranteed", 2, nil), "app", whole(2))
			shrugs := map[string]string{"cpupoold.io/topology-policy": "none"}
			other := n.container(n.pod("other", "default", "guaranteed", 2, shrugs), "app", whole(2))
			n.eventually("CPUs of the container without a policy", func() bool { return n.state(other).Effective.Len() == 2 })
			r.view("problem", hintProblems(1))
			if waited := time.Since(started); waited < numahints.Timeout {
				t.Errorf("a problem after %v", waited)
			}
			n.runsOn(excl, "1")
			n.kubelet.fail(nil)
			n.kubelet.admit("default/e/app", 1)
			n.eventually("CPUs near the device", func() bool {
				cpus := n.state(excl).Effective
				return cpus.Len() == 2 && cpus.IsSubsetOf(cpuset.Range(4, 7))
			})
			r.view("problem over", hintProblems(0))
			if calls := n.runtime.Calls("StopContainer"); calls != 0 {
				t.Errorf("%d containers stopped", calls)
			}
			n.checkAll()
		})
	}
}

// TestKubeletThatServesNoHints checks that the daemon repeats the question to a kubelet without hints
// with each listing only.
func TestKubeletThatServesNoHints(t *testing.T) {
	n := newNode(t)
	n.yaml, n.kubelet = withPolicy("restricted"), newKubelet()
	n.kubelet.fail(podresources.ErrNotSupported)
	r := n.start()
	r.quiet()
	strict := n.container(n.pod("e", "default", "guaranteed", 2, nil), "app", whole(2))
	r.view("problem", hintProblems(1))
	calls, _ := n.kubelet.asked()
	relaxed := map[string]string{"cpupoold.io/topology-policy": "best-effort"}
	other := n.container(n.pod("other", "default", "guaranteed", 2, relaxed), "app", whole(2))
	n.eventually("CPUs without hints", func() bool { return n.state(other).Effective.Len() == 2 })
	r.view("both are problems", hintProblems(2))
	r.quiet()
	if again, _ := n.kubelet.asked(); again != calls {
		t.Errorf("asked %d times more", again-calls)
	}
	n.runsOn(strict, "1")
	n.kubelet.fail(nil)
	n.kubelet.admit("default/e/app", 1)
	r.loop.box.Post(streamChanged{state: cri.Connected}) // makes it list
	n.eventually("CPUs with hints", func() bool { return n.state(strict).Effective.Len() == 2 })
	r.view("the other's stays", hintProblems(1))
}

// TestMissingHintsAreAProblem checks that the problem of a container without an answer lasts until it
// ends, also across a restart of the daemon.
func TestMissingHintsAreAProblem(t *testing.T) {
	n := newNode(t)
	n.yaml, n.kubelet = twoNodesYAML, newKubelet()
	n.kubelet.fail(podresources.ErrUnavailable)
	r := n.start()
	r.quiet()
	pod := n.pod("e", "default", "guaranteed", 2, nil)
	excl := n.container(pod, "app", whole(2))
	n.runsOn(excl, "2-3")
	r.view("problem", hintProblems(1))
	n.kubelet.fail(nil)
	n.kubelet.admit("default/e/app", 1)
	n.kubelet.admit("default/next/app", 1)
	n.runsOn(n.container(n.pod("next", "default", "guaranteed", 2, nil), "app", whole(2)), "4-5")
	r.quiet()
	r.view("problem stays", hintProblems(1))
	n.runsOn(excl, "2-3")
	n.eventually("journal on disk", func() bool { return len(n.journal().Unhinted) == 1 })
	r.stop()
	r = n.start()
	r.quiet()
	r.view("problem stays", hintProblems(1))
	if err := n.runtime.StopPod(pod); err != nil {
		t.Fatal(err)
	}
	r.view("problem gone", hintProblems(0))
	n.eventually("journal on disk", func() bool { return len(n.journal().Unhinted) == 0 })
}
