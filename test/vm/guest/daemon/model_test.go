//go:build guest

package daemon_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/preview"
	"github.com/cpupoold/cpupoold/internal/testing/invariants"
	"github.com/cpupoold/cpupoold/internal/testing/testnode/scenario"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

var (
	steps     = flag.Int("steps", 100, "steps of TestModel")
	seed      = flag.Uint64("seed", 1, "seed of TestModel")
	moreSteps = flag.Bool("more", false, "TestModel resizes containers, takes CPUs offline, and makes owners partitions")
)

// TestModel carries out the scenario of the daemon's model test with real containers and units. It compares the expected state with the
// kernel after each step. Samples check the invariants all the time. -model.seed on the host repeats the same steps.
func TestModel(t *testing.T) {
	n := newNode(t)
	w := newWorld(n)
	violation := n.sample(w.exclusive)
	planned := scenario.Generate(*seed, *steps, w.bounds())
	for i := range w.configs { // few of the steps above take more than one write: pools that change do
		planned = append(planned, scenario.Step{Kind: scenario.KillDaemon, After: i + 1}, scenario.Step{Kind: scenario.Reload, Config: i})
	}
	err := scenario.Run(w, planned)
	found := violation()
	if err == nil && found != "" {
		err = errors.New(found)
	}
	if err != nil {
		t.Fatalf("seed %d: %v\n%s", *seed, err, n.evidence())
	}
	t.Logf("%d kills; before the daemon was done, by the number of its writes: %v", w.kills, w.deaths)
	early := 0
	for _, times := range w.deaths {
		early += times
	}
	if early == 0 {
		t.Error("no kill came before the daemon was ready; want some")
	}
	w.tallies()
}

// world carries out the steps of a scenario in the guest.
type world struct {
	*runtimeNode
	kernel   *realRuntime
	pods     *scenario.Pods
	topology *topology.Topology
	configs  []string
	config   *config.Config  // configuration in force
	rest     preview.Preview // by which the daemon was last found to have nothing to do
	armed    *exactKill      // nil: no kill is armed
	deaths   map[int]int     // how often the daemon was killed after so many writes, with more to do
	kills    int
	changes  changes

	mu    sync.Mutex            // guards the following fields, which samples read
	owned map[string]cpuset.Set // exclusive sets at the last rest, by directory of the cgroup
}

func newWorld(n *node) *world {
	n.Helper()
	t, err := topology.Read(os.DirFS("/sys"))
	if err != nil {
		n.Fatal(err)
	}
	w := &world{runtimeNode: n.withoutKubelet(), topology: t, configs: scenario.Configurations(), deaths: make(map[int]int)}
	w.kernel = w.runtime()
	w.pods = scenario.NewPods(modelRuntime{w.kernel, w})
	if w.parts() {
		w.configs = scenario.Partitions(w.configs)
	}
	for i := range w.configs {
		w.configs[i] += "resyncPeriod: 5m\nweightFormula: quadratic\nlogFormat: json\npodResourcesSocket: none\n"
		if !w.asked() {
			w.configs[i] += "nriSocket: none\n"
		}
	}
	w.Cleanup(w.undo)
	w.installUnits(map[string]string{"du.service": "", "telegraf.service": "AllowedCPUs=0-1"})
	n.startDaemon(w.configs[0])
	if err := w.configure(0); err != nil {
		n.Fatal(err)
	}
	return w
}

// installUnits adds services until the end of the test.
func (w *world) installUnits(units map[string]string) {
	w.Helper()
	name := func(unit string) string { return "/run/systemd/system/" + unit }
	for unit, setting := range units {
		w.write(name(unit), "[Service]\nExecStart=/bin/sleep infinity\n"+setting+"\n")
	}
	w.run("systemctl", "daemon-reload")
	w.Cleanup(func() {
		w.stopDaemon()
		for unit := range units {
			w.run("systemctl", "stop", unit)
			w.run("systemctl", "revert", unit)
			if err := os.Remove(name(unit)); err != nil {
				w.Error(err)
			}
		}
		w.run("systemctl", "daemon-reload")
	})
}

// configure replaces the configuration file.
func (w *world) configure(i int) error {
	w.write(configFile, w.configs[i])
	c, err := config.Load(configFile, config.Overrides{}, w.topology)
	w.config = c
	return err
}

// Do implements scenario.Node.
func (w *world) Do(s scenario.Step) error {
	if s.Kind == scenario.KillDaemon {
		_, _, err := w.disarm()
		w.armed = w.diesAfter(s.After)
		return err
	}
	if err := w.act(s); err != nil {
		return err
	}
	if w.armed != nil {
		if err := w.await(func() error {
			if w.armed.isDead() {
				return nil
			}
			return w.resting()
		}); err != nil {
			return err
		}
		w.kills++
		writes, early, err := w.disarm()
		if err != nil {
			return err
		}
		if early {
			w.deaths[writes]++
		} else if out, err := w.try("systemctl", "kill", "--signal=KILL", "cpupoold"); err != nil {
			return fmt.Errorf("kill daemon: %w: %s", err, out)
		}
		if out, err := w.try("systemctl", "restart", "cpupoold"); err != nil {
			return fmt.Errorf("start daemon: %w: %s", err, out)
		}
	}
	return w.await(w.resting)
}

// disarm ends the watch for the daemon's writes. It returns their number, and whether the last one was the daemon's last.
func (w *world) disarm() (writes int, dead bool, err error) {
	if w.armed == nil {
		return 0, false, nil
	}
	files, dead, err := w.armed.end()
	w.armed = nil
	return len(files), dead, err
}

// act carries out a step.
func (w *world) act(s scenario.Step) error {
	if done, err := w.pods.Do(s); done || err != nil {
		return err
	}
	systemctl := func(args ...string) error {
		out, err := w.try("systemctl", args...)
		if err != nil && (w.armed == nil || !w.armed.isDead()) { // a daemon that dies while it starts has not started
			return fmt.Errorf("systemctl %s: %w: %s", strings.Join(args, " "), err, out)
		}
		return nil
	}
	switch s.Kind {
	case scenario.Reload:
		w.forget()
		return w.configure(s.Config)
	case scenario.RestartDaemon:
		return systemctl("restart", "cpupoold")
	case scenario.LoseJournal:
		if err := systemctl("stop", "cpupoold"); err != nil {
			return err
		}
		if err := os.Remove(journal); err != nil {
			return err
		}
		return systemctl("start", "cpupoold")
	case scenario.StartUnit:
		return systemctl("start", s.Unit)
	case scenario.StopUnit:
		return systemctl("stop", s.Unit)
	case scenario.PlugCPUs:
		return w.plugCPUs(s.Offline)
	case scenario.ReloadSystemd:
		return systemctl("daemon-reload")
	}
	return fmt.Errorf("the guest knows no step %s", s.Kind)
}

// forget allows every owner to move.
func (w *world) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.owned = nil
}

// exclusive reports whether the processes of a cgroup have these CPUs exclusively.
func (w *world) exclusive(c invariants.Occupant) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.owned[c.Name].Equal(c.CPUs) && !c.CPUs.IsEmpty()
}
