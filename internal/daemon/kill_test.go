package daemon

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cpupoold/cpupoold/internal/testnode"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestDeathAfterAnyWrite ends the daemon after each write in turn: at no moment
// do placed containers overlap, and the next daemon ends right, with exclusive
// containers where the first had put them.
func TestDeathAfterAnyWrite(t *testing.T) {
	total := deathAfter(t, -1)
	if total < 6 {
		t.Fatalf("the scene needs only %d writes", total)
	}
	for after := range total {
		t.Run(fmt.Sprint(after), func(t *testing.T) { deathAfter(t, after) })
	}
}

// deathAfter returns how many files a daemon writes that lives.
func deathAfter(t *testing.T, after int) int {
	n := newNode(t)
	n.container(n.pod("m", "kube-system", "burstable", 0, management(map[string]int{"app": 512})), "app", cri.Resources{Shares: 102})
	shared := n.container(n.pod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	first := n.container(n.pod("e1", "default", "guaranteed", 2, nil), "app", whole(2))
	second := n.container(n.pod("e2", "default", "guaranteed", 1, nil), "app", whole(1))
	writes := 0
	dead := make(chan struct{})
	n.tree.Intercept(func(testnode.CgroupWrite) error {
		n.check()
		if writes == after {
			select {
			case <-dead:
			default:
				close(dead)
			}
			return errors.New("the daemon is dead")
		}
		writes++
		return nil
	})
	r := n.start()
	if after >= 0 {
		<-dead
	} else {
		r.quiet()
	}
	r.stop()
	n.tree.Intercept(nil)
	placed := map[string]string{first: n.state(first).CPUs.String(), second: n.state(second).CPUs.String()}
	r = n.start()
	r.quiet()
	n.runsOn(shared, "2-3")
	for id, cpus := range placed {
		if cpus != "" {
			n.runsOn(id, cpus)
		}
	}
	n.runsOn(first, "4-5")
	n.runsOn(second, "6")
	n.check()
	return writes
}
