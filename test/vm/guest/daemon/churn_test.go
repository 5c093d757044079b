//go:build guest

package daemon_test

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

var (
	churnSteps = flag.Int("churn.steps", 200, "starts and stops of exclusive containers in TestChurn; in the last third of them the daemon is killed")
	churnSeed  = flag.Uint64("churn.seed", 1, "seed of TestChurn")
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
	violation := n.sample(func(c cpuset.Claim) bool { return c.CPUs.IsSubsetOf(guaranteed()) })
	random := rand.New(rand.NewPCG(*churnSeed, 2))
	kills := 0
	churn(r, func(step int) {
		if step < *churnSteps*2/3 || random.IntN(3) != 0 {
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

// churn makes *churnSteps steps; after each it calls meddle, waits for the placement of what it has started and checks that nobody has moved.
func churn(r *runtimeNode, meddle func(step int)) {
	r.Helper()
	random := rand.New(rand.NewPCG(*churnSeed, 1))
	type member struct {
		pod
		count int
		cpus  string
	}
	var live []member
	free := guaranteed().Len()
	for step := range *churnSteps {
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
