//go:build guest

package tenants_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/cpupoold/cpupoold/test/vm/internal/guestnode"
)

const (
	// waiters is the number of pods that wait.
	waiters = 50
	// retry is the time after which the creation of each of these pods is repeated. The kubelet takes 10 s and more.
	retry = 25 * time.Second
	// Both windows begin with the first creation of each of these pods.
	quietWindow, waitWindow = time.Minute, 3 * time.Minute
	// maxHeld is the maximum part of the time in which waits hold up the queue of the runtime.
	maxHeld = 0.1
	// maxSlower is the maximum ratio of the median times of other creations. It exceeds 1 + maxHeld, because an emulated node varies.
	maxSlower = 1.5
)

// TestWaits creates the containers of fifty pods again and again, as the kubelet does, while other containers are created. One owner has all CPUs
// of the guaranteed pool. First the daemon refuses the containers at once. Then it waits in these requests for an answer of the kubelet, which does not
// run. The waits must hold up the runtime for at most a tenth of the time. The test makes the pods over CRI: the kubelet is stopped.
func TestWaits(t *testing.T) {
	n := newCrowded(t)
	policy := func(name string) string {
		options := "cpus: 4-7\n  options: {topology-policy: " + name + "}\n"
		return strings.NewReplacer("cpus: 4-7\n", options, "podResourcesSocket: none\n", "").Replace(configuration)
	}
	n.StartDaemon(policy("none"))
	n.AwaitNRI()
	n.start("owner", 4)
	var pods []criPod
	for i := range waiters {
		pods = append(pods, n.sandbox(fmt.Sprint("waiter-", i), guaranteed, wholeCPUs(1), false))
	}
	other := n.sandbox("other", burstable, &runtime.LinuxContainerResources{CpuShares: 102}, false)

	quiet := n.retries(pods, other, quietWindow, "")
	n.StopDaemon()
	n.StartDaemon(policy("restricted"))
	n.AwaitNRI()
	waiting := n.retries(pods, other, waitWindow, "the kubelet does not report")

	held, full := waiting.held()
	part := held.Seconds() / waiting.window.Seconds()
	t.Logf("%d waits of a second and others hold up the runtime for %v, %.1f %% of %v", full, held, part*100, waiting.window.Round(time.Second))
	if full == 0 || len(waiting.refused) < 2*waiters {
		t.Errorf("%d refusals, %d of them after a second; want at least %d, and 1", len(waiting.refused), full, 2*waiters)
	}
	if part > maxHeld {
		t.Errorf("waits hold up the runtime for %.1f %% of the time; want at most %.0f %%", part*100, maxHeld*100)
	}
	for what, took := range map[string][2][]time.Duration{
		"refusal": {quiet.refused, waiting.refused}, "creation and start of another container": {quiet.others, waiting.others},
	} {
		before, after := median(took[0]), median(took[1])
		t.Logf("%s: %v of %d (median) without a wait, %v of %d with waits", what, before.Round(time.Millisecond), len(took[0]),
			after.Round(time.Millisecond), len(took[1]))
		if slower := after.Seconds() / before.Seconds(); slower > maxSlower {
			t.Errorf("%s takes %.2f times as long; want at most %.2f", what, slower, maxSlower)
		}
	}
}

// creations are the times of creations in a window.
type creations struct {
	refused []time.Duration // of the pods that the daemon refuses
	texts   []string        // of these refusals
	others  []time.Duration // creation and start
	window  time.Duration
}

// waited matches the wait of a refusal in units of 100 ms, rounded down, if it was shorter than a second.
var waited = regexp.MustCompile(`the daemon waited (\S+) instead of 1s`)

// shortest is the shortest wait that the daemon grants, apart from none.
const shortest = 100 * time.Millisecond

// held returns the time of all waits, longer ones rounded up, and the number of waits of a second. It takes them from the refusals, because the
// measured times of an emulated node vary by as much.
func (c *creations) held() (sum time.Duration, full int) {
	for _, text := range c.texts {
		match := waited.FindStringSubmatch(text)
		if match == nil {
			full++
			sum += time.Second
			continue
		}
		d, err := time.ParseDuration(match[1])
		if err != nil || d > shortest {
			d += shortest
		}
		sum += d
	}
	return sum, full
}

// retries creates the containers of pods one after another for a window, each again after retry. Meanwhile it creates, starts and removes the container
// of another pod over and over. The refusals contain a text.
func (n *crowded) retries(pods []criPod, other criPod, window time.Duration, text string) (c creations) {
	n.Helper()
	began := time.Now()
	ended := make(chan error, 1)
	go func() { ended <- n.others(other, began.Add(window), &c.others) }()
	tick := time.NewTicker(retry / time.Duration(len(pods)))
	defer tick.Stop()
	for i := 0; time.Since(began) < window; i++ {
		ctx, cancel := context.WithTimeout(n.Context(), guestnode.NodeTimeout)
		asked := time.Now()
		id, err := n.create(ctx, pods[i%len(pods)])
		cancel()
		if err == nil || !strings.Contains(err.Error(), "cpupoold") || !strings.Contains(err.Error(), text) {
			n.Fatalf("creation for pod %d: container %q, %v; want a refusal of cpupoold with %q", i%len(pods), id, err, text)
		}
		c.refused, c.texts = append(c.refused, time.Since(asked)), append(c.texts, err.Error())
		<-tick.C
	}
	if err := <-ended; err != nil {
		n.Fatal(err)
	}
	c.window = time.Since(began)
	return c
}

// others creates, starts and removes a pod's container until a time, and appends the times from the request to the start.
func (n *crowded) others(p criPod, until time.Time, all *[]time.Duration) error {
	for time.Now().Before(until) {
		ctx, cancel := context.WithTimeout(n.Context(), guestnode.NodeTimeout)
		asked := time.Now()
		id, err := n.run(ctx, p)
		took := time.Since(asked)
		if err == nil {
			_, err = n.rpc.StopContainer(ctx, &runtime.StopContainerRequest{ContainerId: id})
		}
		if err == nil {
			_, err = n.rpc.RemoveContainer(ctx, &runtime.RemoveContainerRequest{ContainerId: id})
		}
		cancel()
		if err != nil {
			return fmt.Errorf("another container: %w", err)
		}
		*all = append(*all, took)
	}
	return nil
}

func median(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}
