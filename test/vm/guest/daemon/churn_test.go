//go:build guest

package daemon_test

import (
	"flag"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"
)

var (
	steps = flag.Int("steps", 200, "starts and stops of exclusive containers in TestChurn; TestKill makes a third")
	seed  = flag.Uint64("seed", 1, "seed of the churn tests")
)

// TestChurn starts and stops exclusive containers in random order. At every step the invariants hold, and nobody else moves.
func TestChurn(t *testing.T) {
	n := newNode(t)
	n.startDaemon(pools)
	churn(n.withoutKubelet(), *steps, func(int) {})
}

// TestKill does the same while the daemon is killed at random moments.
func TestKill(t *testing.T) {
	n := newNode(t)
	n.startDaemon(pools)
	random := rand.New(rand.NewPCG(*seed, 2))
	kills := 0
	churn(n.withoutKubelet(), *steps/3, func(step int) {
		if random.IntN(3) != 0 {
			return
		}
		kills++
		// At a random moment of what the daemon does for the last step.
		<-time.After(time.Duration(random.IntN(1000)) * time.Millisecond)
		n.run("systemctl", "kill", "--signal=KILL", "cpupoold")
		n.run("systemctl", "reset-failed", "cpupoold") // the start limit is not what is tested
	})
	t.Logf("killed %d times", kills)
	if kills == 0 {
		t.Error("the daemon was never killed")
	}
}

// churn makes the given number of steps; after each it calls meddle, waits for the placement of what it has started and checks.
func churn(r *runtimeNode, steps int, meddle func(step int)) {
	r.Helper()
	random := rand.New(rand.NewPCG(*seed, 1))
	type member struct {
		pod
		count int
		cpus  string // "" until seen
	}
	var live []member
	free := guaranteed().Len()
	for step := range steps {
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
		r.invariants()
		for _, m := range live {
			st, err := r.fs.Read(m.path)
			if err != nil || st.Effective.String() != m.cpus {
				r.Errorf("step %d: %s was on %s and is on %s, %v\n%s", step, m.name, m.cpus, st.Effective, err, r.evidence())
			}
		}
		if r.Failed() {
			return
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
