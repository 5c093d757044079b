//go:build guest

package daemon_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/daemon"
	"github.com/cpupoold/cpupoold/internal/testnode/scenario"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	cpupools "github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

var (
	steps = flag.Int("steps", 300, "steps of TestModel")
	seed  = flag.Uint64("seed", 1, "seed of TestModel")
)

// TestModel carries out the scenario of the daemon's model test with real containers and units, and holds the same against the kernel's
// word after each step. Beside, samples hold the invariants all the time. Again with the same steps: -seed.
func TestModel(t *testing.T) {
	n := newNode(t)
	w := newWorld(n)
	violation := n.sample(w.exclusive)
	all := scenario.Generate(*seed, *steps, scenario.Bounds{Pods: 5, CPUs: 3, Configs: len(w.configs), Units: scenario.Units(), Kills: 12})
	err := scenario.Run(w, all)
	found := violation()
	if err == nil && found != "" {
		err = errors.New(found)
	}
	if err != nil {
		t.Fatalf("seed %d: %v\n%s", *seed, err, n.evidence())
	}
	t.Logf("%d kills; before the daemon was done, by the number of writes to cpusets: %v", w.kills, w.deaths)
	early := 0
	for _, times := range w.deaths {
		early += times
	}
	if want := *steps / 30; early < want {
		t.Errorf("%d kills came before the daemon was done; want %d", early, want)
	}
}

// world carries out the steps of a scenario in the guest.
type world struct {
	*runtimeNode
	kernel   *realRuntime
	pods     *scenario.Pods
	topology *topology.Topology
	configs  []string
	options  daemon.Options // of the configuration in force
	armed    *death         // nil: the daemon is to live
	deaths   map[int]int    // how often the daemon was killed after so many writes, with more to do
	kills    int

	mu    sync.Mutex            // guards what follows, which samples look at
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
	w.pods = scenario.NewPods(w.kernel)
	for i := range w.configs {
		w.configs[i] += "resyncPeriod: 5m\nweightFormula: quadratic\nlogFormat: json\npodResourcesSocket: none\n"
	}
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
	w.options = daemon.Options{Config: c, Topology: w.topology, Log: slog.New(slog.DiscardHandler)}
	return err
}

// Do implements scenario.Node.
func (w *world) Do(s scenario.Step) error {
	if s.Kind == scenario.KillDaemon {
		err := w.disarm()
		if err == nil {
			w.armed, err = w.arm(s.After)
		}
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
		early := w.armed.isDead()
		w.armed.kill()
		if early {
			w.deaths[w.armed.count()]++
		}
		if err := w.disarm(); err != nil {
			return err
		}
		if out, err := w.try("systemctl", "restart", "cpupoold"); err != nil {
			return fmt.Errorf("start daemon: %w: %s", err, out)
		}
	}
	return w.await(w.resting)
}

// disarm ends the watch for the daemon's writes.
func (w *world) disarm() error {
	if w.armed == nil {
		return nil
	}
	err := w.armed.end()
	w.armed = nil
	return err
}

// act does what a step says.
func (w *world) act(s scenario.Step) error {
	if done, err := w.pods.Do(s); done || err != nil {
		return err
	}
	systemctl := func(args ...string) error {
		out, err := w.try("systemctl", args...)
		if err != nil {
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
	case scenario.ReloadSystemd:
		return systemctl("daemon-reload")
	}
	return fmt.Errorf("the guest knows no step %s", s.Kind)
}

// forget lets everybody move.
func (w *world) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.owned = nil
}

// exclusive says that the processes of a cgroup have these CPUs for themselves.
func (w *world) exclusive(c cpuset.Claim) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.owned[c.Name].Equal(c.CPUs) && !c.CPUs.IsEmpty()
}

// await is eventually for what may be wrong with the daemon, and so ends the scenario only.
func (w *world) await(cond func() error) error {
	deadline := time.Now().Add(patience / 3)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := cond()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		<-tick.C
	}
}

// preview is what a daemon that starts now would do.
func (w *world) preview() (daemon.Preview, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return daemon.DryRun(ctx, w.options)
}

// resting says that the daemon has done all that one would do that starts now, that it has recorded the same, and that both know of all
// that is there. Else it returns what is still to come.
func (w *world) resting() error {
	p, err := w.preview()
	if err != nil {
		return err
	}
	if len(p.Writes)+len(p.Deferred)+len(p.Unread) > 0 {
		return fmt.Errorf("still to do: %v %v %v", p.Writes, p.Deferred, p.Unread)
	}
	if err := w.pods.Known(p.Plan); err != nil {
		return err
	}
	if w.options.Config.OnRefusal == config.RefusalFail {
		for _, pod := range p.Plan.Pods {
			for _, c := range pod.Containers {
				if c.Refused != nil && c.State == cpupools.Running {
					return fmt.Errorf("%s/%s was refused and runs", pod.Name, c.Name)
				}
			}
		}
	}
	return recorded(p.Plan)
}

// recorded says that the daemon's journal has the assignments of a plan.
func recorded(plan cpupools.Plan) error {
	bootID, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return err
	}
	j, err := daemon.LoadJournal(journal, strings.TrimSpace(string(bootID)), time.Now())
	if err != nil {
		return err
	}
	planned, found := make(map[cpupools.Key]string), make(map[cpupools.Key]string)
	for _, a := range plan.Assignments {
		planned[a.Key] = a.CPUs.String()
	}
	for _, a := range j.Assignments {
		found[cpupools.Key{PodUID: a.PodUID, Container: a.Container}] = a.CPUs.String()
	}
	if !maps.Equal(planned, found) {
		return fmt.Errorf("the daemon has recorded %v; a cold start plans %v", found, planned)
	}
	return nil
}

// Check implements scenario.Node.
func (w *world) Check() error {
	if w.armed != nil {
		return nil // the next step tells
	}
	p, err := w.preview()
	if err != nil {
		return err
	}
	on, err := w.options.Config.Resolve(w.topology)
	if err != nil {
		return err
	}
	exclusive, err := w.pods.Check(p.Plan, on)
	owned := make(map[string]cpuset.Set)
	for id, cpus := range exclusive {
		owned[w.kernel.directory(id)] = cpus
	}
	w.mu.Lock()
	w.owned = owned
	w.mu.Unlock()
	return err
}
