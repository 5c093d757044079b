//go:build guest

package daemon_test

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/testing/testnode/scenario"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

var soakTime = flag.Duration("soak", 0, "how long TestSoak lasts; 0 leaves it out")

// TestSoak carries out the scenario of TestModel for a time. A fault precedes half of the steps, each kind equally often. After each step the
// daemon must become idle in the state that a new daemon would plan. Samples check the invariants all the time. The end prints the count of each
// kind and the time until the desired state.
func TestSoak(t *testing.T) {
	if *soakTime == 0 {
		t.Skip("a slice of its own: make soak")
	}
	n := newNode(t)
	n.smallDisk()
	n.shortQueue()
	s := &soak{world: newWorld(n), rand: rand.New(rand.NewPCG(*seed, 0)), took: make(map[string][]time.Duration)}
	s.end = time.Now().Add(*soakTime)
	violation := n.sample(s.exclusive)
	err := s.run()
	found := violation()
	t.Log(s.summary())
	if err == nil && found != "" {
		err = errors.New(found)
	}
	if err != nil {
		t.Fatalf("seed %d: %v\n%s", *seed, err, n.evidence())
	}
	if *soakTime >= 10*time.Minute {
		for _, fault := range s.faults() {
			if len(s.took[fault.name]) == 0 {
				t.Errorf("fault %s did not occur; want it at least once", fault.name)
			}
		}
	}
}

// soak is the scenario's world, in which things break.
type soak struct {
	*world
	rand *rand.Rand
	end  time.Time
	deck []fault // which come next; shuffled
	// took has how long it was to rest, by fault, or by kind of step.
	took map[string][]time.Duration
}

// fault causes a fault and repairs it. Its checks run between both.
type fault struct {
	name   string
	happen func() error
}

func (s *soak) faults() []fault {
	return []fault{
		{"daemon killed", func() error {
			return errors.Join(s.do("systemctl", "kill", "--kill-whom=main", "--signal=KILL", "cpupoold"), s.do("systemctl", "restart", "cpupoold"))
		}},
		{"daemon hangs, external write", func() error { return s.stopped("cpupoold", s.intrude) }},
		{"daemon hangs, notices overflow", func() error { return s.stopped("cpupoold", s.overflow) }},
		{"external write", s.intrude},
		{"runtime killed", func() error {
			return errors.Join(s.do("systemctl", "kill", "--kill-whom=main", "--signal=KILL", "containerd"), s.restartRuntime())
		}},
		{"runtime restarted", s.restartRuntime},
		{"runtime hangs, external write", func() error { return s.stopped("containerd", s.intrude) }},
		{"connections to D-Bus end", func() error { return s.do("systemctl", "daemon-reexec") }},
		{"disk full, external write", func() error {
			empty := s.fillDisk()
			defer empty()
			return s.intrude()
		}},
		{"clock set, external write", func() error {
			began := time.Now()
			set := func(off time.Duration) error {
				return s.do("date", "-s", fmt.Sprintf("@%d", began.Add(time.Since(began)+off).Unix()))
			}
			off := []time.Duration{time.Hour, -time.Hour}[s.rand.IntN(2)]
			return errors.Join(set(off), s.intrude(), set(0))
		}},
	}
}

// run goes through scenarios until the time is over.
func (s *soak) run() error {
	for time.Now().Before(s.end) {
		steps := scenario.Generate(s.rand.Uint64(), 100, s.bounds())
		err := scenario.Run(s, steps)
		if errors.Is(err, errSoaked) {
			return nil
		}
		if err != nil {
			return err
		}
		// The next one begins with an empty node.
		s.removeAll()
		s.pods = scenario.NewPods(modelRuntime{s.kernel, s.world})
		s.forget()
		if err := s.await(s.resting); err != nil {
			return err
		}
	}
	return nil
}

var errSoaked = errors.New("the time is over")

// Do implements scenario.Node.
func (s *soak) Do(step scenario.Step) error {
	if !time.Now().Before(s.end) && s.armed == nil {
		return errSoaked
	}
	if s.armed == nil && s.rand.IntN(2) == 0 {
		if err := s.breaks(); err != nil {
			return err
		}
	}
	began := time.Now()
	err := s.world.Do(step)
	s.took["step "+string(step.Kind)] = append(s.took["step "+string(step.Kind)], time.Since(began))
	return err
}

// breaks causes the next fault, and waits until the node is in the desired state again.
func (s *soak) breaks() error {
	if len(s.deck) == 0 {
		s.deck = s.faults()
		s.rand.Shuffle(len(s.deck), func(i, j int) { s.deck[i], s.deck[j] = s.deck[j], s.deck[i] })
	}
	next := s.deck[0]
	s.deck = s.deck[1:]
	if err := next.happen(); err != nil {
		return fmt.Errorf("%s: %w", next.name, err)
	}
	began := time.Now()
	if err := s.await(s.resting); err != nil {
		return fmt.Errorf("after %s: %w", next.name, err)
	}
	if err := s.Check(); err != nil {
		return fmt.Errorf("after %s: %w", next.name, err)
	}
	s.took[next.name] = append(s.took[next.name], time.Since(began))
	return nil
}

func (s *soak) do(name string, args ...string) error {
	out, err := s.try(name, args...)
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// stopped has something happen while a service is stopped by a signal.
func (s *soak) stopped(unit string, happen func() error) error {
	return errors.Join(s.do("systemctl", "kill", "--kill-whom=main", "--signal=STOP", unit), happen(),
		s.do("systemctl", "kill", "--kill-whom=main", "--signal=CONT", unit))
}

// restartRuntime does so, and waits until it answers.
func (s *soak) restartRuntime() error {
	if err := s.do("systemctl", "restart", "containerd"); err != nil {
		return err
	}
	return s.await(func() error {
		ctx, cancel := call()
		defer cancel()
		_, _, err := s.client.List(ctx)
		return err
	})
}

// intrude writes CPUs to the cgroup of a container, if one exists. It writes CPUs without an exclusive owner, because other values would
// violate an invariant.
func (s *soak) intrude() error {
	var dirs []cgroup.Path
	for id, p := range s.kernel.paths {
		if _, runs := s.kernel.CPUs(id); runs {
			dirs = append(dirs, p)
		}
	}
	if len(dirs) == 0 {
		return nil
	}
	slices.Sort(dirs)
	free := s.topology.Online
	s.mu.Lock()
	for _, cpus := range s.owned {
		free = free.Difference(cpus)
	}
	s.mu.Unlock()
	return s.fs.Write(dirs[s.rand.IntN(len(dirs))], cgroup.FileCPUs, cpuset.Of(free.Last()).String())
}

// overflow changes more than the queue of notices holds.
func (s *soak) overflow() error {
	for range queueLength {
		if err := s.intrude(); err != nil {
			return err
		}
	}
	return nil
}

// summary returns the counts of faults and the median and maximum of the times until the
// desired state.
func (s *soak) summary() string {
	var b strings.Builder
	names := make([]string, 0, len(s.took))
	total := 0
	for name, all := range s.took {
		names = append(names, name)
		if !strings.HasPrefix(name, "step ") {
			total += len(all)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(strings.Count(a, "step "), strings.Count(b, "step ")), cmp.Compare(a, b))
	})
	fmt.Fprintf(&b, "%v, %d faults, desired state after each; seconds until then, median and maximum:\n", *soakTime, total)
	for _, name := range names {
		all := slices.Sorted(slices.Values(s.took[name]))
		fmt.Fprintf(&b, "%-34s %4d times %6.1f %6.1f\n", name, len(all), all[len(all)/2].Seconds(), all[len(all)-1].Seconds())
	}
	return b.String()
}
