//go:build guest

package daemon_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

var (
	steps = flag.Int("steps", 200, "starts and stops of exclusive containers in TestChurn; in the last third of them the daemon is killed")
	seed  = flag.Uint64("seed", 1, "seed of TestChurn")
)

// TestChurn starts and stops exclusive containers in random order, beside a management and a shared pod, in the last third while the
// daemon is killed at random moments. At every sample the invariants hold, and nobody moves.
func TestChurn(t *testing.T) {
	n := newNode(t)
	n.startDaemon(pools)
	r := n.withoutKubelet()
	agent := r.mustStart(100, "kube-system", manifest.Management(nil))
	shared := r.mustStart(500, "default", nil)
	r.eventually("management", func() error { return r.runsOn(agent, "0-1", 0) })
	r.eventually("shared", func() error { return r.runsOn(shared, "2-3", 0) })
	n.quiet()
	violation := n.sample()
	random := rand.New(rand.NewPCG(*seed, 2))
	kills := 0
	churn(r, func(step int) {
		if step < *steps*2/3 || random.IntN(3) != 0 {
			return
		}
		kills++
		// At a random moment of what the daemon does for the last step.
		<-time.After(time.Duration(random.IntN(1000)) * time.Millisecond)
		n.run("systemctl", "kill", "--signal=KILL", "cpupoold")
		n.run("systemctl", "reset-failed", "cpupoold") // the start limit is not what is tested
	})
	if err := violation(); err != "" {
		t.Errorf("%s\n%s", err, n.evidence())
	}
	t.Logf("the daemon was killed %d times", kills)
	if kills == 0 {
		t.Error("the daemon was never killed")
	}
	for p, cpus := range map[pod]string{agent: "0-1", shared: "2-3"} {
		if err := r.runsOn(p, cpus, 0); err != nil {
			t.Error(err)
		}
	}
	n.quiet()
	n.invariants()
}

// sample holds the invariants against the kernel again and again until the function is called that it returns, also while the daemon
// writes or is dead. Two walks make a sample: what both have seen was so at one moment between them.
func (n *node) sample() (violation func() string) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan string, 1)
	samples := 0
	go func() {
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				ended <- ""
				return
			case <-tick.C:
			}
			first, err1 := n.claims(placedOnly)
			second, err2 := n.claims(placedOnly)
			if err1 != nil || err2 != nil {
				continue // a cgroup has gone between list and look
			}
			both := slices.DeleteFunc(first, func(c cpuset.Claim) bool {
				return !slices.ContainsFunc(second, func(d cpuset.Claim) bool { return c.Name == d.Name && c.CPUs.Equal(d.CPUs) })
			})
			samples++
			for _, err := range cpuset.CheckClaims(both) {
				ended <- err.Error()
				return
			}
		}
	}()
	return func() string {
		stop()
		found := <-ended
		n.Logf("%d samples", samples)
		if samples == 0 {
			return "no sample was taken"
		}
		return found
	}
}

// churn makes *steps steps; after each it calls meddle, waits for the placement of what it has started and checks that nobody has moved.
func churn(r *runtimeNode, meddle func(step int)) {
	r.Helper()
	random := rand.New(rand.NewPCG(*seed, 1))
	type member struct {
		pod
		count int
		cpus  string
	}
	var live []member
	free := guaranteed().Len()
	for step := range *steps {
		count := 1 + random.IntN(2)
		if len(live) > 0 && (free < count || random.IntN(3) == 0) {
			i := random.IntN(len(live))
			r.removePod(live[i].pod)
			free += live[i].count
			live = append(live[:i], live[i+1:]...)
			meddle(step)
		} else {
			p := r.mustStart(int64(count)*1000, "default", nil)
			meddle(step)
			live = append(live, member{pod: p, count: count, cpus: r.onCPUs(p, count)})
			free -= count
		}
		for _, m := range live {
			if err := r.runsOn(m.pod, m.cpus, 0); err != nil {
				r.Errorf("step %d: moved: %v\n%s", step, err, r.evidence())
				return
			}
		}
	}
}

// TestLock: a second daemon on the node does not start.
func TestLock(t *testing.T) {
	n := newNode(t)
	n.startDaemon(pools)
	out, err := n.try("cpupoold", "run", "--listen-address=127.0.0.1:0")
	if err == nil || !strings.Contains(out, "another cpupoold holds the node's lock") {
		t.Errorf("second daemon: %v: %s", err, out)
	}
	if _, err := os.Stat("/run/cpupoold/lock"); err != nil {
		t.Error(err)
	}
}
