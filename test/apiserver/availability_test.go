//go:build apiserver

package apiserver_test

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// takeover is the longest time until another replica evicts pods, after the loss of the one
// that did: docs/how-to/install/high-availability.md states it.
const takeover = 25 * time.Second

// TestHighAvailability checks docs/how-to/install/high-availability.md on three control planes, each
// with an API server, a member of etcd and a webhook replica. The steps build on each other.
func TestHighAvailability(t *testing.T) {
	for name, start := range map[string]func(*testing.T) *controlPlanes{
		"compact": func(t *testing.T) *controlPlanes {
			return startControlPlanes(t, "", []string{cores, shared, guaranteed}, "")
		},
		"tainted": func(t *testing.T) *controlPlanes {
			return startControlPlanes(t, `{"key":"node-role.kubernetes.io/control-plane","effect":"NoSchedule"}`, []string{cores, shared}, "worker")
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := start(t)
			t.Run("three replicas start at once", func(t *testing.T) { startReplicas(t, c) })
			t.Run("the latches close", func(t *testing.T) { closeLatches(t, c) })
			t.Run("all API servers reach all replicas", func(t *testing.T) { reachAll(t, c) })
			t.Run("static pods change", func(t *testing.T) { changeStaticPods(t, c) })
			t.Run("a node is lost and returns", func(t *testing.T) { loseNode(t, c) })
			t.Run("a new machine has the name of a node", func(t *testing.T) { replaceMachine(t, c) })
		})
	}
}

// startReplicas installs the webhook with eviction, and checks that all replicas agree on one
// certificate.
func startReplicas(t *testing.T, c *controlPlanes) {
	s := c.any()
	prepare(t, s)
	install(t, s, "eviction/eviction.yaml")
	install(t, s, "../rbac.yaml")
	evicts(t, s, "'on'")
	for i := range c.all {
		c.launchReplica(i)
	}
	for _, p := range c.all {
		p.replica.await(c.t, s)
		endpoint(t, s, p.name, p.replica.address)
	}
	send(t, s)
	beforeTimeout(t, s)
	for _, p := range c.all {
		answers(t, p.apiServer)
	}
	oneCertificate(t, c)
}

// beforeTimeout gives replicas the longest time to answer. On a busy machine, API servers would
// otherwise create pods of kube-system without an answer.
func beforeTimeout(t *testing.T, s *apiServer) {
	t.Helper()
	patch := `[{"op":"replace","path":"/webhooks/0/timeoutSeconds","value":30},{"op":"replace","path":"/webhooks/1/timeoutSeconds","value":30}]`
	if _, err := s.client(t, admin).AdmissionregistrationV1().MutatingWebhookConfigurations().Patch(t.Context(), installed, types.JSONPatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// oneCertificate waits until all replicas serve the certificate of the Secret.
func oneCertificate(t *testing.T, c *controlPlanes) {
	t.Helper()
	secret, err := c.any().client(t, admin).CoreV1().Secrets(installed).Get(t.Context(), "cpupool-webhook-tls", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range c.all {
		shows(t, p.replica, secret)
	}
}

// closeLatches lets the daemons of one node after the other report. The latches stay open
// until the last node, which is not ready in between, has reported.
func closeLatches(t *testing.T, c *controlPlanes) {
	type node struct {
		name  string
		pools []string
	}
	var nodes []node
	for _, p := range c.all {
		nodes = append(nodes, node{p.name, c.pools})
	}
	if c.worker != "" {
		nodes = slices.Insert(nodes, 0, node{c.worker, []string{cores, shared, guaranteed}})
	}
	lost := c.all[len(c.all)-1]
	for i, n := range nodes {
		open := len(nodes) - i
		c.lacking(t, open)
		if n.name == lost.name {
			c.unreachable(t, lost)
			c.seen(t, open)
			areLatched(t, c.any())
			c.reachable(t, lost)
			c.seen(t, open)
		}
		areLatched(t, c.any())
		for _, p := range c.all {
			requested(t, p.apiServer, whole("x"), "cpu=2")
			requested(t, p.apiServer, newPod("x", nil, "cpu=500m"), "cpu=500m")
		}
		c.report(t, n.name, 4000, n.pools...)
	}
	c.lacking(t, 0)
	areLatched(t, c.any(), cores, guaranteed, shared)
	for _, p := range c.all {
		eventually(t, p.name+" changes pods", func(ctx context.Context) error { return p.mutates(ctx, t) })
	}
	c.latch = c.latches(t)
}

// reachAll checks that each API server sends pods to each replica that runs.
func reachAll(t *testing.T, c *controlPlanes) {
	t.Helper()
	for _, from := range c.all {
		before := map[*controlPlane]int{}
		for _, p := range c.up() {
			before[p] = p.replica.reviews(t.Context(), t)
		}
		eventually(t, from.name+" sends pods to all replicas", func(ctx context.Context) error {
			a := from.burst(ctx, t, inApps())
			if a.plain+a.failed > 0 {
				t.Errorf("pods through %s: %+v, want all of them changed", from.name, a)
			}
			if a.changed == 0 {
				return errorf("pods through %s: %+v, want some that are changed", from.name, a)
			}
			for p, count := range before {
				if p.replica.reviews(ctx, t) == count {
					return errorf("the replica of %s is not asked", p.name)
				}
			}
			return nil
		})
	}
}

// loseNode ends the control plane whose replica evicts pods, and starts it again.
func loseNode(t *testing.T, c *controlPlanes) {
	var lost *controlPlane
	eventually(t, "a replica is elected", func(ctx context.Context) error {
		if lost = c.leader(ctx, t); lost == nil {
			return errorf("none is")
		}
		return nil
	})
	at := slices.Index(c.all, lost)
	pressed := c.worker
	if pressed == "" {
		pressed = c.all[(at+1)%len(c.all)].name
	}
	onPressed := func(p *corev1.Pod) { p.Spec.NodeName = pressed }
	deplete(t, c.any(), pressed, true)
	running(t, c.any(), "before", onPressed)
	evicted(t, c.any(), "before")
	before := holder(t, c.any())

	lostAt := c.lose(lost)
	t.Run("its endpoint stays for a while", func(t *testing.T) { keepEndpoint(t, c) })
	t.Run("its endpoint goes", func(t *testing.T) { removeEndpoint(t, c, lost) })
	t.Run("another replica evicts pods", func(t *testing.T) {
		eventually(t, "another replica is elected", func(ctx context.Context) error {
			if c.leader(ctx, t) == nil || holder(t, c.any()) == before {
				return errorf("none is")
			}
			return nil
		})
		lease, err := c.any().client(t, admin).CoordinationV1().Leases(installed).Get(t.Context(), evictionOf, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		took := lease.Spec.AcquireTime.Sub(lostAt)
		t.Logf("another replica was elected after %s", took.Round(100*time.Millisecond))
		if took > takeover {
			t.Errorf("another replica was elected after %s, want at most %s", took, takeover)
		}
		running(t, c.any(), "after", onPressed)
		evicted(t, c.any(), "after")
		deplete(t, c.any(), pressed, false)
	})
	t.Run("it returns", func(t *testing.T) { returnNode(t, c, at) })
}

// keepEndpoint checks pods while the lost replica is still an endpoint of the service. In apps
// some are refused, and all others are changed. In kube-system some are created without a
// change, and none is refused.
func keepEndpoint(t *testing.T, c *controlPlanes) {
	for _, p := range c.up() {
		eventually(t, p.name+" asks the lost replica", func(ctx context.Context) error {
			a := p.burst(ctx, t, inApps())
			if a.plain > 0 {
				t.Errorf("pods in apps through %s: %+v, want none that is plain", p.name, a)
			}
			if a.failed == 0 || a.changed == 0 {
				return errorf("pods in apps: %+v, want some that fail and some that are changed", a)
			}
			return nil
		})
		eventually(t, p.name+" asks the lost replica about pods of kube-system", func(ctx context.Context) error {
			a := p.burst(ctx, t, inKubeSystem())
			if a.failed > 0 {
				t.Errorf("pods in kube-system through %s: %+v, want none that fails", p.name, a)
			}
			if a.plain == 0 || a.changed == 0 {
				return errorf("pods in kube-system: %+v, want some that are plain and some that are changed", a)
			}
			return nil
		})
	}
}

// removeEndpoint marks the lost node as not ready, as controllers do after some time, and
// checks that everything works without it.
func removeEndpoint(t *testing.T, c *controlPlanes, lost *controlPlane) {
	c.unreachable(t, lost)
	if err := c.any().client(t, admin).DiscoveryV1().EndpointSlices(installed).Delete(t.Context(), lost.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, p := range c.up() {
		eventually(t, p.name+" knows the change", func(ctx context.Context) error {
			if a := p.burst(ctx, t, inKubeSystem()); a.plain > 0 || a.changed == 0 {
				return errorf("pods in kube-system: %+v, want none that is plain", a)
			}
			return nil
		})
	}
	c.seen(t, 0)
	c.works(t)
	c.accept(t, 2*len(components()))
}

// works checks that pods of each kind are changed through all API servers that run, and that
// the latches are as they were.
func (c *controlPlanes) works(t *testing.T) {
	t.Helper()
	for _, p := range c.up() {
		if err := p.mutates(t.Context(), t); err != nil {
			t.Error(err)
		}
		for _, k := range podKinds() {
			if a := p.burst(t.Context(), t, k); a.changed != burstSize {
				t.Errorf("pods in %s through %s: %+v, want all %d of them changed", k.namespace, p.name, a, burstSize)
			}
		}
	}
	if now := c.latches(t); now != c.latch {
		t.Error("latches changed; want no change")
	}
}

// returnNode starts the lost control plane again. Its kubelet sets the resources to 0, until
// the daemon reports.
func returnNode(t *testing.T, c *controlPlanes, at int) {
	p := c.all[at]
	secret := certificate(t, c)
	p.server.StartEtcd(c.t)
	p.server.Start(c.t)
	c.serves(p)
	p.down = false
	c.works(t) // also through its API server, with the two other replicas

	c.launchReplica(at)
	p.replica.await(c.t, p.apiServer)
	endpoint(t, c.any(), p.name, p.replica.address)
	if !bytes.Equal(certificate(t, c), secret) {
		t.Error("certificate of the returned replica changed; want the Secret's")
	}
	oneCertificate(t, c)
	reachAll(t, c)

	c.report(t, p.name, 0, c.pools...)
	c.reachable(t, p)
	c.seen(t, 0)
	c.works(t)
	c.report(t, p.name, 4000, c.pools...)
	for _, k := range components() {
		c.show(t, p, k)
	}
	c.accept(t, 2*len(components()))
}

// certificate returns the certificate of the Secret.
func certificate(t *testing.T, c *controlPlanes) []byte {
	t.Helper()
	secret, err := c.any().client(t, admin).CoreV1().Secrets(installed).Get(t.Context(), "cpupool-webhook-tls", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return secret.Data["tls.crt"]
}

// replaceMachine deletes a Node and registers it again, without resources until its daemon
// reports.
func replaceMachine(t *testing.T, c *controlPlanes) {
	p := c.all[0]
	if err := c.any().client(t, admin).CoreV1().Nodes().Delete(t.Context(), p.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.seen(t, 0)
	c.works(t)

	readyNode(t, c.any(), p.name)
	c.taint(t, p)
	c.lacking(t, 1)
	for _, through := range c.all {
		requested(t, through.apiServer, newPod("x", nil, "cpu=500m"), "cpu=500m")
		requested(t, through.apiServer, whole("x"), "cpu=2 "+guaranteed+"=2k")
		if got, err := through.dryRun(t.Context(), t, inKubeSystem()); err != nil || got != inKubeSystem().want {
			t.Errorf("requests of a management pod through %s = %q, %v; want the rewritten ones", through.name, got, err)
		}
	}
	areLatched(t, c.any(), cores, guaranteed, shared)

	c.report(t, p.name, 4000, c.pools...)
	c.lacking(t, 0)
	c.works(t)
}
