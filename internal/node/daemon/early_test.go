package daemon

import (
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/cpupoold/cpupoold/internal/node/actor"
	"github.com/cpupoold/cpupoold/internal/node/requests"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/nri"
)

// newScript returns a script with a daemon on a node with a configuration.
func newScript(t *testing.T, yaml string) *script {
	t.Helper()
	s := newScenario(t, &txtar.Archive{})
	s.YAML = yaml
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	return s
}

// restartUnlisted starts the next daemon of a node with an exclusive container, du/app. The
// runtime does not list its containers. Apps is created while no daemon runs.
func restartUnlisted(t *testing.T, onRefusal, apps string, r cri.Resources) *script {
	t.Helper()
	s := newScript(t, strings.Replace(nodefixture.CarvedYAML, "  floor: 2\n", "  floor: 2\n  onRefusal: "+onRefusal+"\n", 1))
	err := errors.Join(s.pod("du", map[string]string{"cpus": "2"}), s.create("du/app", map[string]string{"cpus": "2"}), s.begin("du/app"))
	s.settle()
	if cpus := s.State(s.ids["du/app"]).Effective; err != nil || cpus.String() != "2-3" {
		t.Fatalf("du/app is on CPUs %s, %v; want 2-3", cpus, err)
	}
	s.stop()
	s.loop = nil
	if apps != "" {
		pod, _, _ := strings.Cut(apps, "/")
		cpus := int(r.Shares / 1024)
		s.ids[pod] = s.RunPod(pod, "default", map[bool]string{true: "guaranteed", false: "burstable"}[cpus > 0], cpus, nil)
		id, err := s.Runtime.CreateContainer(s.ids[pod], testnode.ContainerSpec{Name: "app", Resources: r})
		if err != nil {
			t.Fatal(err)
		}
		s.ids[apps] = id
	}
	s.Runtime.Fail("ListContainers", grpcstatus.Error(codes.Unavailable, "busy"))
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	s.event(nriChanged{state: nri.Connected})
	s.settle()
	return s
}

// TestEarlyStart checks the reply to a start before the first pass. A container without recorded
// CPUs waits for the pass. Then an exclusive one is refused, unless onRefusal is shared.
func TestEarlyStart(t *testing.T) {
	whole, part := nodefixture.WholeCPUs(2), cri.Resources{Shares: 512}
	for name, c := range map[string]struct {
		onRefusal, container string
		resources            cri.Resources
		asked                bool // the daemon has replied to the creation
		waits, refused       bool
	}{
		"created with a reply":                 {"fail", "web/app", part, true, false, false},
		"exclusive, without a reply":           {"fail", "cu/app", whole, false, true, true},
		"exclusive, without a reply, allowed":  {"shared", "cu/app", whole, false, true, false},
		"shared, without a reply":              {"fail", "web/app", part, false, true, false},
		"unknown to the runtime and to daemon": {"fail", "", part, false, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			before := c.container
			if c.asked {
				before = ""
			}
			s := restartUnlisted(t, c.onRefusal, before, c.resources)
			if c.asked {
				s.ask([]string{c.container}, c.resources)
			}
			q := requests.NewStart(s.ids[c.container], s.now, s.ctx.Done())
			answer := q.Reply()
			s.event(startRequest{q})
			s.settle()
			if waits := len(answer) == 0; waits != c.waits {
				t.Fatalf("the reply waits: %t; want %t\n%s", waits, c.waits, s.out.String())
			}
			if err := s.wait("1s"); err != nil {
				t.Fatal(err)
			}
			s.settle()
			if len(answer) == 0 {
				t.Fatalf("no reply\n%s", s.out.String())
			}
			if err := (<-answer).Err; errors.Is(err, errEarly) != c.refused || (err != nil) != c.refused {
				t.Errorf("reply: %v; refused: %t", err, c.refused)
			}
			if s.loop.last.Planned {
				t.Error("the first pass was made")
			}
		})
	}
}

// TestEarlySharedOnRefusal checks that onRefusal shared gives a container that needs exclusive
// CPUs the shared pool without exclusive CPUs, when the time for its wait is over.
func TestEarlySharedOnRefusal(t *testing.T) {
	s := restartUnlisted(t, "shared", "", cri.Resources{})
	answer := s.question("cu/app", nodefixture.WholeCPUs(2), s.ctx.Done())
	s.settle()
	if len(answer) > 0 {
		t.Fatalf("the reply does not wait: %+v", <-answer)
	}
	if err := s.wait("1s"); err != nil {
		t.Fatal(err)
	}
	s.settle()
	if len(answer) == 0 {
		t.Fatalf("no reply\n%s", s.out.String())
	}
	a := <-answer
	if to := a.Value.Adjustment; a.Err != nil || to.CPUs.String() != "4-7" || to.Env["CPUPOOL_EXCLUSIVE"] != "false" {
		t.Errorf("reply %+v, %v; want CPUs 4-7 of the shared pool", to, a.Err)
	}
	s.Runtime.Fail("ListContainers", nil)
	if err := s.wait("10s"); err != nil {
		t.Fatal(err)
	}
	s.settle()
	if !s.loop.last.Planned {
		t.Errorf("no first pass\n%s", s.out.String())
	}
	s.CheckAssigned()
}

// heldDisk keeps the jobs for the disk.
type heldDisk struct{ jobs []actor.Job[event] }

func (d *heldDisk) Submit(_ string, j actor.Job[event]) { d.jobs = append(d.jobs, j) }

// TestReplyWaitsForJournal checks when a reply goes out during a save of the journal.
func TestReplyWaitsForJournal(t *testing.T) {
	short := journalTimeout - time.Millisecond
	for name, c := range map[string]struct {
		end  func(s *script, save saved, cancel func())
		sent bool
	}{
		"saved":    {func(s *script, save saved, _ func()) { s.event(save) }, true},
		"not yet":  {func(s *script, _ saved, _ func()) { s.now = s.now.Add(short) }, false},
		"hung":     {func(s *script, _ saved, _ func()) { s.now = s.now.Add(journalTimeout) }, true},
		"canceled": {func(s *script, save saved, cancel func()) { cancel(); s.event(save) }, false},
		"failed": {func(s *script, save saved, _ func()) {
			save.err = errors.New("no space left on device")
			s.event(save)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, nodefixture.CarvedYAML)
			s.event(nriChanged{state: nri.Connected})
			s.settle()
			disk := new(heldDisk)
			s.loop.workers.Disk, s.loop.RecentDir = disk, ""
			canceled := make(chan struct{})
			answer := s.question("web/app", cri.Resources{Shares: 512}, canceled)
			s.settle()
			if held := s.loop.requests.HeldUntil(); len(answer) > 0 || held.IsZero() || len(disk.jobs) == 0 {
				t.Fatalf("%d replies sent, one held until %v, %d jobs; want a held reply\n%s", len(answer), held, len(disk.jobs), s.out.String())
			}
			var save saved
			for _, j := range disk.jobs {
				if e, ok := j(s.ctx).(saved); ok {
					save = e
				}
			}
			if save.upTo == 0 || save.err != nil {
				t.Fatalf("save %+v", save)
			}
			c.end(s, save, func() { close(canceled) })
			s.settle()
			if sent := len(answer) > 0; sent != c.sent {
				t.Fatalf("reply sent: %t; want %t\n%s", sent, c.sent, s.out.String())
			}
			known := s.loop.inventory.Objects().Container(s.ids["web/app"]) != nil
			if want := name != "canceled"; known != want {
				t.Errorf("the inventory has the container: %t; want %t", known, want)
			}
			if c.sent {
				if a := <-answer; a.Err != nil || a.Value.Adjustment.CPUs.String() != "2-7" {
					t.Errorf("reply %+v", a)
				}
			}
		})
	}
}

// TestReplyWaitsForNoDisk checks that a reply goes out while the disk hangs, because the file in memory
// has the CPUs and the originals. A problem reports the disk.
func TestReplyWaitsForNoDisk(t *testing.T) {
	s := newScript(t, nodefixture.PoolsYAML)
	s.event(nriChanged{state: nri.Connected})
	s.settle()
	disk := new(heldDisk)
	s.loop.workers.Disk = disk
	before := len(s.Journal().Originals)
	for i, name := range []string{"du/app", "web/app"} {
		answer := s.question(name, cri.Resources{Shares: 512}, nil)
		s.settle()
		if len(answer) == 0 {
			t.Fatalf("%s: no reply while the disk hangs\n%s", name, s.out.String())
		}
		j := s.Journal()
		if a := <-answer; a.Err != nil || len(j.Originals) <= before+i || j.OnDisk == j.Change {
			t.Errorf("%s: reply %+v; journal %+v", name, a, j)
		}
		s.now = s.now.Add(journalTimeout)
		s.settle()
	}
	if p := s.loop.journal.Problems("journal.json"); len(p) != 1 || !strings.Contains(p[0].Text, "in runDir alone") {
		t.Errorf("problems %+v; want that the disk does not answer", p)
	}
	if late := s.Logged("journal is late; writes go ahead, and restore may not know the values that they replace"); len(late) > 0 {
		t.Errorf("logged %v", late)
	}
	for i := 0; i < len(disk.jobs); i++ { // a save can follow
		s.event(disk.jobs[i](s.ctx))
		s.settle()
	}
	if j := s.Journal(); j.OnDisk != j.Change {
		t.Errorf("change %d of %d is on disk", j.OnDisk, j.Change)
	}
	if p := s.loop.journal.Problems("journal.json"); len(p) != 0 {
		t.Errorf("problems of a disk that answers: %+v", p)
	}
}
