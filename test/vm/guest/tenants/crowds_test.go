//go:build guest

package tenants_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/test/vm/internal/guestnode"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

// fewThreads is the minimum number of threads that the node must bear, so that the test means something.
const fewThreads = 10_000

// TestCrowds starts a privileged pod with 20,000 cgroups in its own cgroup, and a pod with as many threads as the node bears, at most 25,000.
// Meanwhile pods with exclusive CPUs start and become partitions. The daemon reports no problem of another pod.
func TestCrowds(t *testing.T) {
	n := node{Node: guestnode.New(t), partitions: true}
	copyProgram(t)
	n.StartDaemon(strings.Replace(configuration, "cpus: 4-7\n", "cpus: 4-7\n  isolation: partition\n", 1))
	quiet := n.rounds("before")

	privileged := map[string]any{"securityContext": map[string]any{"privileged": true}}
	pods := []manifest.Pod{attacker("nested", privileged), attacker("crowd", privileged)}
	n.Apply(pods...)
	cgroups := n.grown("nested", nested)
	threads := n.grown("crowd", crowd)
	if cgroups < nested || threads < fewThreads {
		t.Errorf("%d cgroups and %d threads; want at least %d and %d", cgroups, threads, nested, fewThreads)
	}
	before, began := n.cpuTime(), time.Now()
	attacked := n.rounds("attacked")
	used, window := n.cpuTime()-before, time.Since(began)
	t.Logf("with %d cgroups and %d threads: start of a pod in %v, %v before; daemon: %d KiB of memory at most, %.2f of one CPU", cgroups, threads,
		attacked.Round(10*time.Millisecond), quiet.Round(10*time.Millisecond), n.peak()>>10, used.Seconds()/window.Seconds())
	for _, p := range n.status().Problems {
		if !strings.HasSuffix(p.Pod, "/"+n.FullName("nested")) && !strings.HasSuffix(p.Pod, "/"+n.FullName("crowd")) {
			t.Errorf("problem of another pod: %+v", p)
		}
	}
	for _, p := range pods {
		n.Withdraw(p.Name)
	}
}

// grown waits until an attack has made all attempts, or makes no more, and returns their number.
func (n node) grown(name string, all int64) (count int64) {
	n.Helper()
	last, since := int64(-1), time.Now()
	n.Every(time.Second, "end of attack "+name, func() error {
		text, err := os.ReadFile(filepath.Join(progress, name))
		if err == nil {
			count, err = strconv.ParseInt(string(text), 10, 64)
		}
		if err != nil {
			return err
		}
		if count != last {
			last, since = count, time.Now()
		}
		if count < all && (count == 0 || time.Since(since) < 20*time.Second) {
			return fmt.Errorf("%d of %d", count, all)
		}
		return nil
	})
	return count
}

// isPartition checks that the kernel has made a valid partition of the pod's container.
func (n node) isPartition(pod string) {
	n.Helper()
	n.Eventually("partition of "+pod, func() error {
		own, err := n.Find(pod, "app")
		if err != nil {
			return err
		}
		text, err := n.FS.ReadFile(own.Path, cgroup.FilePartition)
		if state := strings.TrimSpace(string(text)); err == nil && state != "isolated" && state != "root" {
			err = fmt.Errorf("it is %q", state)
		}
		return err
	})
}
