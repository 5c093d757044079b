//go:build apiserver

package apiserver_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cpupoold/cpupoold/test/processes"
)

// A controlPlane is a Node, an API server, a member of etcd, a replica of the webhook and a
// folder of static pods.
type controlPlane struct {
	*apiServer
	name      string
	server    *processes.APIServer
	replica   *replica
	manifests string

	using   sync.RWMutex // held for writing while the server is down; see keepCreating
	down    bool
	created atomic.Int64 // rounds of keepCreating in which pods of each kind were changed
}

// A controlPlanes is a cluster with three control planes. t is the test of its processes.
type controlPlanes struct {
	t      *testing.T
	all    []*controlPlane
	taints string   // of control planes, in JSON
	pools  []string // resources of control planes
	worker string   // name of a Node with all pools; empty: none
	latch  string   // resourceVersion of the latches when they are closed
}

// startControlPlanes starts everything but the replicas. Each Node exists and is ready; no
// daemon reports resources.
func startControlPlanes(t *testing.T, taints string, pools []string, worker string) *controlPlanes {
	t.Helper()
	c := &controlPlanes{t: t, taints: taints, pools: pools, worker: worker}
	var nodes strings.Builder
	for i := range 3 {
		c.all = append(c.all, &controlPlane{name: fmt.Sprintf("cp-%d", i+1), manifests: t.TempDir()})
		fmt.Fprintf(&nodes, "%[1]s,%[1]s,cp-%d,\"system:nodes\"\n", c.all[i].identity(), i+1)
	}
	for i, server := range processes.StartAPIServers(t, len(c.all), tokens+nodes.String(), serverArgs()...) {
		c.all[i].server, c.all[i].apiServer = server, &apiServer{address: server.Address}
	}
	for _, p := range c.all {
		readyNode(t, c.any(), p.name)
		c.taint(t, p)
	}
	if worker != "" {
		readyNode(t, c.any(), worker)
	}
	return c
}

// identity returns the user of the node's kubelet.
func (p *controlPlane) identity() string { return "system:node:" + p.name }

// any returns an API server that runs.
func (c *controlPlanes) any() *apiServer { return c.up()[0].apiServer }

// up returns the control planes that run.
func (c *controlPlanes) up() []*controlPlane {
	var up []*controlPlane
	for _, p := range c.all {
		if !p.down {
			up = append(up, p)
		}
	}
	return up
}

// taint gives a Node the taints of control planes, and more.
func (c *controlPlanes) taint(t *testing.T, p *controlPlane, more ...string) {
	t.Helper()
	if c.taints != "" {
		more = append(more, c.taints)
	}
	patchNode(t, c.any(), p.name, "", `{"spec":{"taints":[`+strings.Join(more, ",")+`]}}`)
}

// unreachable marks a Node as the node lifecycle controller does when its kubelet is silent.
func (c *controlPlanes) unreachable(t *testing.T, p *controlPlane) {
	t.Helper()
	patchNode(t, c.any(), p.name, "status", `{"status":{"conditions":[{"type":"Ready","status":"Unknown","reason":"NodeStatusUnknown"}]}}`)
	const key = `{"key":"node.kubernetes.io/unreachable","effect":`
	c.taint(t, p, key+`"NoSchedule"}`, key+`"NoExecute"}`)
}

// reachable marks a Node as ready again.
func (c *controlPlanes) reachable(t *testing.T, p *controlPlane) {
	t.Helper()
	patchNode(t, c.any(), p.name, "status", `{"status":{"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady"}]}}`)
	c.taint(t, p)
}

// report writes the resources of a Node as its daemon does.
func (c *controlPlanes) report(t *testing.T, node string, amount int, resources ...string) {
	t.Helper()
	var list []string
	for _, r := range resources {
		list = append(list, fmt.Sprintf("%q:%q", r, strconv.Itoa(amount)))
	}
	all := "{" + strings.Join(list, ",") + "}"
	patch := `{"status":{"capacity":` + all + `,"allocatable":` + all + `,"conditions":[{"type":"CPUPoolsReady","status":"True","reason":"AsPlanned","message":"m"}]}}`
	if _, err := daemonOn(t, c.any(), node).Patch(t.Context(), node, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}

// launchReplica starts the replica of a control plane. The replica uses the API server of
// the next control plane, and the others when that one is down.
func (c *controlPlanes) launchReplica(i int) {
	c.t.Helper()
	addresses := make([]string, len(c.all))
	for n := range c.all {
		addresses[n] = c.all[(i+1+n)%len(c.all)].address
	}
	c.all[i].replica = launch(c.t, &apiServer{address: balance(c.t, addresses)})
}

// balance returns the address of a balancer, which connects its clients to the first
// address that accepts.
func balance(t *testing.T, addresses []string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go forward(t.Context(), in, addresses)
		}
	}()
	return l.Addr().String()
}

// forward copies between a client and the first address that accepts, until one side ends.
func forward(ctx context.Context, in net.Conn, addresses []string) {
	defer in.Close()
	for _, address := range addresses {
		out, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			continue
		}
		defer out.Close()
		go func() {
			_, _ = io.Copy(out, in)
			_ = out.Close()
		}()
		_, _ = io.Copy(in, out)
		return
	}
}

// restart calls a function that ends programs of a control plane and starts them again. No
// pod is created through its API server in between.
func (c *controlPlanes) restart(p *controlPlane, endAndStart func()) {
	c.t.Helper()
	p.using.Lock()
	defer p.using.Unlock()
	p.down = true
	endAndStart()
	c.serves(p)
	p.down = false
}

// serves waits until an API server is ready and reads from its etcd.
func (c *controlPlanes) serves(p *controlPlane) {
	c.t.Helper()
	eventually(c.t, "the API server of "+p.name+" serves", func(ctx context.Context) error {
		for _, path := range []string{"/readyz", "/api/v1/nodes/" + p.name} {
			if _, err := p.server.Do(ctx, http.MethodGet, path, "", ""); err != nil {
				return err
			}
		}
		return nil
	})
}

// lose ends everything on a control plane at once, and returns the time.
func (c *controlPlanes) lose(p *controlPlane) time.Time {
	c.t.Helper()
	p.down = true
	at := time.Now()
	p.server.Process.Kill()
	p.replica.Kill()
	p.server.Etcd.Kill()
	return at
}

// A podKind is a pod, and its requests after the webhook has changed it.
type podKind struct {
	namespace string
	pod       *corev1.Pod
	want      string
}

// podKinds returns pods, with their requests when all latches are closed. In kube-system, API
// servers ignore a webhook that fails; in apps they refuse the pod.
func podKinds() []podKind {
	return []podKind{inKubeSystem(), inApps(), {"apps", whole("whole"), "cpu=2 " + guaranteed + "=2k"},
		{"infra", newPod("management", management(), "cpu=400m memory=1Gi"), cores + "=400"}}
}

func inKubeSystem() podKind {
	return podKind{"kube-system", newPod("system", management(), "cpu=400m memory=1Gi"), cores + "=400"}
}

func inApps() podKind {
	return podKind{"apps", newPod("fraction", nil, "cpu=500m"), "cpu=500m " + shared + "=500"}
}

// dryRun creates the pod through an API server without storing it, and returns its requests.
func (p *controlPlane) dryRun(ctx context.Context, t *testing.T, k podKind) (string, error) {
	t.Helper()
	got, err := p.client(t, alice).CoreV1().Pods(k.namespace).Create(ctx, k.pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return "", err
	}
	return requests(got), nil
}

// mutates returns an error unless pods of each kind are changed through the API server.
func (p *controlPlane) mutates(ctx context.Context, t *testing.T) error {
	t.Helper()
	for _, k := range podKinds() {
		got, err := p.dryRun(ctx, t, k)
		if err == nil && got != k.want {
			err = errorf("it requests %q, want %q", got, k.want)
		}
		if err != nil {
			return errorf("pod %s/%s through %s: %w", k.namespace, k.pod.Name, p.name, err)
		}
	}
	return nil
}

// unavailable reports whether an error is of the API server or of etcd, and not of admission.
func unavailable(err error) bool {
	if _, transport := errors.AsType[*url.Error](err); transport {
		return true
	}
	return !strings.Contains(err.Error(), "webhook") && (strings.Contains(err.Error(), "etcdserver:") || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err))
}

// keepCreating creates pods through all API servers that run, until the function that it
// returns is called. Each pod that an API server creates must have the requests of its kind.
// The server may be unavailable, so callers use created and createdSince.
func (c *controlPlanes) keepCreating(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var creating sync.WaitGroup
	for _, p := range c.all {
		creating.Go(func() {
			again := time.NewTicker(500 * time.Millisecond)
			defer again.Stop()
			for ctx.Err() == nil {
				p.using.RLock()
				err := p.mutates(ctx, t)
				p.using.RUnlock()
				switch {
				case err == nil:
					p.created.Add(1)
				case ctx.Err() == nil && !unavailable(err):
					t.Errorf("while control planes change: %v", err)
					return
				}
				select {
				case <-ctx.Done():
				case <-again.C:
				}
			}
		})
	}
	stop = sync.OnceFunc(func() {
		cancel()
		creating.Wait()
	})
	t.Cleanup(stop)
	return stop
}

// created returns the rounds of keepCreating so far, for each control plane.
func (c *controlPlanes) created() []int64 {
	rounds := make([]int64, len(c.all))
	for i, p := range c.all {
		rounds[i] = p.created.Load()
	}
	return rounds
}

// createdSince waits until keepCreating has created pods through each API server after a call
// of created. The first round may have begun before the call, so it waits for the second.
func (c *controlPlanes) createdSince(t *testing.T, before []int64) {
	t.Helper()
	for i, p := range c.all {
		eventually(t, "pods are created through "+p.name, func(context.Context) error {
			if rounds := p.created.Load() - before[i]; rounds < 2 {
				return errorf("%d rounds, want 2", rounds)
			}
			return nil
		})
	}
}

// A counts has the numbers of answers to a burst, and the first failure of the webhook.
type counts struct {
	changed     int // the pod has the requests of its kind
	plain       int // the pod has other requests
	failed      int // refused, because the webhook has failed
	unavailable int // no API server
	failure     string
}

// burstSize is more than the idle connections that a client keeps: 25.
const burstSize = 40

// burst creates a pod many times at once, so that the API server opens connections to
// several endpoints. It counts the answers.
func (p *controlPlane) burst(ctx context.Context, t *testing.T, k podKind) counts {
	t.Helper()
	type answer struct {
		requests string
		err      error
	}
	came := make(chan answer, burstSize)
	for range burstSize {
		go func() {
			got, err := p.dryRun(ctx, t, k)
			came <- answer{got, err}
		}()
	}
	var a counts
	for range burstSize {
		switch got := <-came; {
		case got.err == nil && got.requests == k.want:
			a.changed++
		case got.err == nil:
			a.plain++
		case strings.Contains(got.err.Error(), "failed calling webhook"):
			a.failed++
			a.failure = cmp.Or(a.failure, got.err.Error())
		case unavailable(got.err):
			a.unavailable++
		case ctx.Err() == nil:
			t.Errorf("pod %s/%s through %s: %v", k.namespace, k.pod.Name, p.name, got.err)
		}
	}
	return a
}

// reviews returns the number of reviews of a replica.
func (r *replica) reviews(ctx context.Context, t *testing.T) (sum int) {
	t.Helper()
	for line := range strings.Lines(r.metricsNow(ctx, t)) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(name, "cpupool_webhook_reviews_total{") {
			n, err := strconv.Atoi(value)
			if err != nil {
				t.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}

// lacking waits until all replicas count so many nodes that lack management cores.
func (c *controlPlanes) lacking(t *testing.T, want int) {
	t.Helper()
	line := fmt.Sprintf(`cpupool_webhook_resource_lacking_nodes{resource=%q} %d`, cores, want)
	for _, p := range c.up() {
		eventually(t, fmt.Sprintf("the replica of %s counts %d nodes that lack cores", p.name, want), func(ctx context.Context) error {
			if text := p.replica.metricsNow(ctx, t); !strings.Contains(text, line+"\n") {
				return errorf("metrics %s", text)
			}
			return nil
		})
	}
}

// seen waits until all replicas have seen the changes of Nodes so far, of which so many lack
// cores. Another Node is created and deleted for this purpose.
func (c *controlPlanes) seen(t *testing.T, lacking int) {
	t.Helper()
	nodeWith(t, c.any(), "probe")
	c.lacking(t, lacking+1)
	if err := c.any().client(t, admin).CoreV1().Nodes().Delete(t.Context(), "probe", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.lacking(t, lacking)
}

// latches returns the version of the latches.
func (c *controlPlanes) latches(t *testing.T) string {
	t.Helper()
	m, err := c.any().client(t, admin).CoreV1().ConfigMaps(installed).Get(t.Context(), "cpupool-webhook-latches", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return m.ResourceVersion
}

// leader returns the control plane whose replica evicts pods, or nil.
func (c *controlPlanes) leader(ctx context.Context, t *testing.T) *controlPlane {
	t.Helper()
	for _, p := range c.up() {
		if strings.Contains(p.replica.metricsNow(ctx, t), "cpupool_webhook_eviction_leader 1\n") {
			return p
		}
	}
	return nil
}
