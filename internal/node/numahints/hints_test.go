package numahints_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/numahints"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/podresources"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

var (
	start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	app   = pools.Key{PodUID: "u", Container: "app"}
)

// kubelet is a fake PodResources server.
type kubelet struct {
	containers []podresources.Container
	err        error
	calls      int
}

func (k *kubelet) List(context.Context) ([]podresources.Container, error) {
	k.calls++
	return k.containers, k.err
}

// node is a node with the pod default/a, whose container app requests two exclusive CPUs.
type node struct {
	kubelet   kubelet
	inventory *inventory.Inventory
	pools     pools.Pools
	pod       pools.Pod
	claims    []pools.Claim
	held      []pools.Assignment
	hints     *numahints.Hints
}

func newNode(policy allocate.Policy) *node {
	whole := pools.Resources{Shares: 2048}
	n := &node{
		inventory: inventory.New(cgroup.DriverSystemd),
		pools:     pools.Pools{Guaranteed: cpuset.Range(2, 7), Options: allocate.Options{TopologyPolicy: policy}},
		pod: pools.Pod{UID: "u", Namespace: "default", Name: "a", QoS: pools.QoSGuaranteed, Resources: whole,
			Containers: []pools.Container{{Name: "app", State: pools.Created, Resources: whole}}},
		hints: numahints.New(nil),
	}
	n.inventory.ExpectPod(cri.Pod{ID: "p", UID: "u", Namespace: "default", Name: "a"})
	return n
}

func (n *node) lists(container string, nodes ...int) {
	n.kubelet.containers = append(n.kubelet.containers, podresources.Container{Namespace: "default", Pod: "a", Name: container, Nodes: cpuset.Of(nodes...)})
}

// ask asks the fake kubelet if a question is due, and returns the pod with the hints.
func (n *node) ask(at time.Time) pools.Container {
	if keys, due := n.hints.Ask(n.pools, []pools.Pod{n.pod}, n.claims, n.held, at); due {
		n.hints.Take(numahints.Fetch(context.Background(), &hostenv.Host{Devices: &n.kubelet}, keys), n.inventory.Objects(), at)
	}
	return n.apply()
}

func (n *node) apply() pools.Container {
	pods := []pools.Pod{n.pod}
	n.hints.Apply(pods)
	return pods[0].Containers[0]
}

// TestAnswer checks that a container gets the nodes that the kubelet lists for it.
func TestAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		listed map[string][]int
		nodes  string
		waits  bool
	}{
		"its devices":                  {listed: map[string][]int{"app": {1}}, nodes: "1"},
		"no devices":                   {listed: map[string][]int{"app": nil}},
		"init container is not listed": {listed: map[string][]int{"next": {1}, "sidecar": {0}}, nodes: "0-1"},
		"pod is not listed":            {waits: true},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(allocate.BestEffort)
			for container, nodes := range c.listed {
				n.lists(container, nodes...)
			}
			got := n.ask(start)
			if got.Nodes.String() != c.nodes || got.Waiting != c.waits {
				t.Errorf("nodes %q, waiting %t; want %q, %t", got.Nodes, got.Waiting, c.nodes, c.waits)
			}
			if lacks := n.hints.Lacks(n.pools, n.pod, n.claims, nil); lacks != c.waits {
				t.Errorf("lacks an answer: %t; want %t", lacks, c.waits)
			}
			if n.hints.State() != telemetry.SourceOK {
				t.Errorf("source is %q; want %q", n.hints.State(), telemetry.SourceOK)
			}
		})
	}
}

// TestClaims checks that the kubelet is not asked for a container that uses a ResourceClaim. Other containers of the
// pod wait for an answer.
func TestClaims(t *testing.T) {
	for name, c := range map[string]struct {
		claims []pools.Claim
		bare   bool // the pod has no container yet
		asked  bool
	}{
		"no claim":                   {asked: true},
		"no claim, and no container": {bare: true, asked: true},
		"claim of the container":     {claims: []pools.Claim{{PodUID: "u", Containers: []string{"app"}}}},
		"of another container":       {claims: []pools.Claim{{PodUID: "u", Containers: []string{"other"}}}, asked: true},
		"of another pod":             {claims: []pools.Claim{{PodUID: "v", Containers: []string{"app"}}}, asked: true},
		"claim, and no container":    {claims: []pools.Claim{{PodUID: "u"}}, bare: true},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(allocate.Restricted)
			n.claims = c.claims
			if c.bare {
				n.pod.Containers = nil
			}
			lacks := n.hints.Lacks(n.pools, n.pod, n.claims, nil)
			if _, due := n.hints.Ask(n.pools, []pools.Pod{n.pod}, n.claims, nil, start); due != c.asked || lacks != c.asked {
				t.Errorf("question due %t, lacks an answer %t; want %t", due, lacks, c.asked)
			}
			if problems := n.hints.Problems(n.inventory.Objects(), start.Add(2*numahints.Timeout)); (len(problems) > 0) != (c.asked && !c.bare) {
				t.Errorf("problems = %v; want some: %t", problems, c.asked)
			}
		})
	}
}

// TestPartialAnswer checks that Take returns the containers with an error of their own.
func TestPartialAnswer(t *testing.T) {
	n := newNode(allocate.BestEffort)
	bad := podresources.Container{Namespace: "default", Pod: "a", Name: "app", Err: errors.New("node of a device is negative")}
	other := bad
	other.Pod = "other"
	n.kubelet.containers = []podresources.Container{bad, other}
	keys, due := n.hints.Ask(n.pools, []pools.Pod{n.pod}, n.claims, nil, start)
	got := n.hints.Take(numahints.Fetch(t.Context(), &hostenv.Host{Devices: &n.kubelet}, keys), n.inventory.Objects(), start)
	if !due || len(got) != 1 || got[0].Pod != "a" {
		t.Errorf("due %t, incomplete %v; want the container of the pod that was asked for", due, got)
	}
}

// TestNoAnswer checks how long a container waits, the number of questions, and the problem
// that remains. Under a strict policy the container waits until there is an answer.
func TestNoAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		policy              allocate.Policy
		err                 error
		before, after       bool // waits before and after the timeout
		calls               int  // in the timeout
		problems            int
		state               telemetry.SourceState
		unhinted, askedLate bool
	}{
		"unavailable":         {allocate.BestEffort, podresources.ErrUnavailable, true, false, 8, 1, telemetry.SourceLost, true, true},
		"unavailable, strict": {allocate.SingleNUMANode, podresources.ErrUnavailable, true, true, 8, 1, telemetry.SourceLost, false, true},
		"not listed":          {allocate.BestEffort, nil, true, false, 8, 1, telemetry.SourceOK, true, true},
		"not listed, strict":  {allocate.Restricted, nil, true, true, 8, 1, telemetry.SourceOK, false, true},
		"no kubelet":          {allocate.BestEffort, podresources.ErrNoKubelet, false, false, 2, 0, "", false, true},
		"no kubelet, strict":  {allocate.Restricted, podresources.ErrNoKubelet, true, true, 8, 1, "", false, true},
		"no hints":            {allocate.BestEffort, podresources.ErrNotSupported, true, false, 1, 1, telemetry.SourceLost, true, false},
		"no hints, strict":    {allocate.Restricted, podresources.ErrNotSupported, true, true, 1, 1, telemetry.SourceLost, false, false},
		"no topology policy":  {allocate.None, podresources.ErrUnavailable, false, false, 0, 0, "", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(c.policy)
			n.kubelet.err = c.err
			if waits := n.ask(start).Waiting; waits != c.before {
				t.Errorf("waits at first: %t; want %t", waits, c.before)
			}
			for at := time.Duration(0); at < numahints.Timeout; at += 50 * time.Millisecond {
				n.ask(start.Add(at))
			}
			if n.kubelet.calls != c.calls {
				t.Errorf("asked %d times; want %d", n.kubelet.calls, c.calls)
			}
			late := start.Add(numahints.Timeout)
			n.ask(late)
			if waits := n.ask(late).Waiting; waits != c.after || n.hints.IsOverdue(app, late) != c.after {
				t.Errorf("waits after the timeout: %t, overdue %t; want %t", waits, n.hints.IsOverdue(app, late), c.after)
			}
			if got := n.hints.Problems(n.inventory.Objects(), late); len(got) != c.problems {
				t.Errorf("problems %v; want %d", got, c.problems)
			}
			if n.hints.State() != c.state {
				t.Errorf("source is %q; want %q", n.hints.State(), c.state)
			}
			if unhinted := len(n.hints.Unhinted()) == 1; unhinted != c.unhinted {
				t.Errorf("continues without an answer: %t", unhinted)
			}
			calls := n.kubelet.calls
			n.ask(late.Add(10 * time.Second))
			if later := n.kubelet.calls > calls; later != c.askedLate {
				t.Errorf("asked again after the timeout: %t; want %t", later, c.askedLate)
			}
		})
	}
}

// TestLateAnswer checks that an answer ends the wait and the problem.
func TestLateAnswer(t *testing.T) {
	for _, policy := range []allocate.Policy{allocate.BestEffort, allocate.SingleNUMANode} {
		n := newNode(policy)
		n.kubelet.err = podresources.ErrNotSupported
		n.ask(start)
		late := start.Add(numahints.Timeout)
		n.ask(late)
		n.kubelet.err = nil
		n.lists("app", 1)
		n.hints.AskAgain()
		got := n.ask(late.Add(time.Minute))
		if problems := n.hints.Problems(n.inventory.Objects(), late.Add(time.Minute)); got.Waiting || got.Nodes.String() != "1" || len(problems)+len(n.hints.Unhinted()) > 0 {
			t.Errorf("%s: nodes %q, waiting %t, problems %v, unhinted %v", policy, got.Nodes, got.Waiting, problems, n.hints.Unhinted())
		}
	}
}

// TestOneQuestion checks that no question starts before the answer to the previous one.
func TestOneQuestion(t *testing.T) {
	n := newNode(allocate.BestEffort)
	ask := func() bool {
		_, due := n.hints.Ask(n.pools, []pools.Pod{n.pod}, n.claims, nil, start)
		return due
	}
	if !ask() || ask() {
		t.Error("the first question is not due, or a second one is")
	}
	n.hints.Take(numahints.Answer{}, n.inventory.Objects(), start)
	if !ask() {
		t.Error("no question after an answer for other pods")
	}
}

// TestUnwanted checks the pods for which no answer counts.
func TestUnwanted(t *testing.T) {
	for name, change := range map[string]func(*node){
		"no guaranteed pool": func(n *node) { n.pools.Guaranteed = cpuset.Set{} },
		"burstable":          func(n *node) { n.pod.QoS = pools.QoSBurstable },
		"gone":               func(n *node) { n.pod.Gone = true },
		"fraction of a CPU":  func(n *node) { n.pod.Resources.Shares, n.pod.Containers[0].Resources.Shares = 100, 100 },
		"exited": func(n *node) {
			n.pod.Containers[0].State = pools.Exited
			n.pod.Containers = append(n.pod.Containers, n.pod.Containers[0])
		},
		"has exclusive CPUs": func(n *node) {
			n.held = []pools.Assignment{{Key: app, CPUs: cpuset.Of(2, 3)}}
			n.pod.Resources = pools.Resources{}
		},
		"shares the CPUs of its pod": func(n *node) {
			n.held = []pools.Assignment{{Key: pools.Key{PodUID: app.PodUID}, CPUs: cpuset.Of(2, 3), Sharers: []string{app.Container}, Total: 2}}
			n.pod.Resources = pools.Resources{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(allocate.Restricted)
			change(n)
			if c := n.ask(start); n.kubelet.calls != 0 || c.Waiting || n.hints.Lacks(n.pools, n.pod, n.claims, n.held) {
				t.Errorf("asked %d times, waiting %t", n.kubelet.calls, c.Waiting)
			}
		})
	}
}

// TestGoWithout checks that a container continues before the timeout on request, but not
// under a strict policy.
func TestGoWithout(t *testing.T) {
	for policy, waits := range map[allocate.Policy]bool{allocate.BestEffort: false, allocate.Restricted: true} {
		n := newNode(policy)
		n.ask(start)
		n.hints.GoWithout(app)
		if got := n.apply().Waiting; got != waits {
			t.Errorf("%s: waiting %t; want %t", policy, got, waits)
		}
	}
}

// TestUnhinted checks how long a container without an answer is remembered: while it holds
// its CPUs, also after a restart of the daemon.
func TestUnhinted(t *testing.T) {
	n := newNode(allocate.BestEffort)
	n.hints = numahints.New([]pools.Key{{PodUID: "v", Container: "app"}, app})
	n.held = []pools.Assignment{{Key: app, CPUs: cpuset.Of(2, 3)}}
	n.ask(start)
	if d := cmp.Diff([]pools.Key{app}, n.hints.Unhinted()); d != "" {
		t.Errorf("the owner of CPUs (-want +got):\n%s", d)
	}
	n.hints.Forget(map[string]bool{"v": true})
	if got := n.hints.Unhinted(); len(got) > 0 {
		t.Errorf("after the end of its pod: %v", got)
	}
}

// TestForget checks that answers for pods that ended are dropped.
func TestForget(t *testing.T) {
	n := newNode(allocate.Restricted)
	n.lists("app", 1)
	n.ask(start)
	n.hints.Forget(map[string]bool{"u": true})
	if n.hints.Lacks(n.pools, n.pod, n.claims, nil) {
		t.Error("the answer for an existing pod is dropped")
	}
	n.hints.Forget(nil)
	if !n.hints.Lacks(n.pools, n.pod, n.claims, nil) {
		t.Error("the answer for a pod that ended is kept")
	}
}

// TestNext checks the times at which the event loop has to look at the questions again.
func TestNext(t *testing.T) {
	n := newNode(allocate.BestEffort)
	n.kubelet.err = podresources.ErrUnavailable
	next := func() (first time.Time) {
		n.hints.Next(func(at time.Time) {
			if first.IsZero() || at.Before(first) {
				first = at
			}
		})
		return first
	}
	if at := next(); !at.IsZero() {
		t.Errorf("without questions at %v", at)
	}
	n.ask(start)
	if at := next(); !at.After(start) || at.After(start.Add(numahints.Timeout/4)) {
		t.Errorf("after %v; want a small part of the timeout", at.Sub(start))
	}
	n.kubelet.err = podresources.ErrNotSupported
	n.ask(start.Add(time.Second))
	if at := next(); !at.Equal(start.Add(numahints.Timeout)) {
		t.Errorf("after %v; want the timeout", at.Sub(start))
	}
}

// TestFetchOnce checks the hints of a caller without an event loop.
func TestFetchOnce(t *testing.T) {
	for name, c := range map[string]struct {
		policy allocate.Policy
		err    error
		nodes  string
		waits  bool
	}{
		"answer":            {policy: allocate.BestEffort, nodes: "1"},
		"no answer":         {policy: allocate.BestEffort, err: podresources.ErrUnavailable},
		"no answer, strict": {policy: allocate.Restricted, err: podresources.ErrUnavailable, waits: true},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(c.policy)
			n.lists("app", 1)
			n.kubelet.err = c.err
			n.hints = numahints.FetchOnce(t.Context(), &hostenv.Host{Devices: &n.kubelet}, n.inventory.Objects(), n.pools, []pools.Pod{n.pod}, n.claims, nil)
			if got := n.apply(); got.Nodes.String() != c.nodes || got.Waiting != c.waits {
				t.Errorf("nodes %q, waiting %t; want %q, %t", got.Nodes, got.Waiting, c.nodes, c.waits)
			}
		})
	}
	n := newNode(allocate.Restricted)
	n.hints = numahints.FetchOnce(t.Context(), &hostenv.Host{}, n.inventory.Objects(), n.pools, []pools.Pod{n.pod}, n.claims, nil)
	if n.apply().Waiting {
		t.Error("waits for a kubelet that is not configured")
	}
}
