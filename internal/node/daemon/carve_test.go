package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

func TestSharedGivesWayAndComesBack(t *testing.T) {
	n := newNode(t)
	n.YAML = nodefixture.CarvedYAML
	r := n.start()
	shared := n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	n.AwaitCPUs(shared, "2-7")
	pod := n.RunPod("e", "default", "guaranteed", 2, nil)
	excl := n.RunContainer(pod, "app", nodefixture.WholeCPUs(2))
	n.Eventually("exclusive CPUs", func() bool { return n.State(excl).Effective.Len() == 2 })
	r.quiet()
	mine, rest := n.State(excl).Effective, cpuset.Range(2, 7)
	n.AwaitCPUs(shared, rest.Difference(mine).String())
	n.AwaitCPUs(pod, rest.Difference(mine).String())
	n.CheckAssigned()
	if err := n.Runtime.StopPod(pod); err != nil {
		t.Fatal(err)
	}
	n.AwaitCPUs(shared, "2-7")
}

// TestRestartMovesNobodyThatIsCarved checks that a daemon that starts recognizes exclusive and
// shared containers in one pool.
func TestRestartMovesNobodyThatIsCarved(t *testing.T) {
	n := newNode(t)
	n.YAML = nodefixture.CarvedYAML
	r := n.start()
	shared := n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	first := n.RunContainer(n.RunPod("e1", "default", "guaranteed", 1, nil), "app", nodefixture.WholeCPUs(1))
	n.Eventually("first placed", func() bool { return n.State(first).Effective.Len() == 1 })
	second := n.RunContainer(n.RunPod("e2", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	n.Eventually("second placed", func() bool { return n.State(second).Effective.Len() == 2 })
	// Of six CPUs three are left for the shared pool. This container is refused, and its cpuset
	// has as many CPUs as it requests.
	refused := n.RunContainer(n.RunPod("e3", "default", "guaranteed", 3, nil), "app", nodefixture.WholeCPUs(3))
	n.Eventually("third in the shared pool", func() bool { return n.State(refused).Effective.Equal(n.State(shared).Effective) })
	r.quiet()
	r.stop()
	for name, damage := range map[string]func() error{
		"journal kept": func() error { return nil },
		"journal lost": func() error { return os.RemoveAll(filepath.Join(n.Dir, "journal.json")) },
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		before := len(n.Tree.Writes())
		r := n.start()
		r.quiet()
		r.stop()
		if writes := n.Tree.Writes()[before:]; len(writes) != 0 {
			t.Errorf("%s: a restart with nothing to do wrote %v; want none", name, writes)
		}
	}
}
