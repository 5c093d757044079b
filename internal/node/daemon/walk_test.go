package daemon

import (
	"os"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// firstWriteTree calls first before each write.
type firstWriteTree struct {
	*testnode.Cgroups
	first func()
}

func (t *firstWriteTree) WriteFile(name, value string) error {
	if t.first != nil {
		t.first()
	}
	return t.Cgroups.WriteFile(name, value)
}

// TestWalkToFirstWrite runs the daemon from its start to the start event of a container, or to the
// first write of its cgroup. TestWalkIsShort of test/arch runs it with WALK_UNTIL, and compares the
// coverage profiles.
func TestWalkToFirstWrite(t *testing.T) {
	until := os.Getenv("WALK_UNTIL")
	if until == "" {
		t.Skip("TestWalkIsShort of test/arch sets WALK_UNTIL")
	}
	s := newScenario(t, &txtar.Archive{})
	tree := &firstWriteTree{Cgroups: s.Tree}
	s.onHost = func(h *hostenv.Host) { h.Cgroups = cgroup.New(tree) }
	s.run("> start\n> pod a cpus=2\n")
	if err := s.create("a/app", map[string]string{"cpus": "2"}); err != nil {
		t.Fatal(err)
	}
	id := s.ids["a/app"]
	if err := s.Runtime.StartContainer(id); err != nil { // before the daemon has handled its creation
		t.Fatal(err)
	}
	s.event(runtimeEvent{cri.Event{ContainerID: id, PodID: s.PodOf(id), Kind: cri.ContainerStarted, At: s.now}})
	if until == "event" {
		t.Skip("reached the event")
	}
	tree.first = func() { t.Skip("reached the write") } // ends the code that the profile counts
	s.settle()
	t.Errorf("no write follows the start:\n%s", s.out.String())
}
