//go:build guest

package daemon_test

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

// earlier is the program of an earlier revision, which TestDaemon of test/vm chooses.
var earlier = flag.String("earlier", "", "program for TestUpgrade to begin and to end with")

const (
	program = "/usr/local/bin/cpupoold"
	later   = "/usr/local/lib/cpupoold-later" // for the time of TestUpgrade
	du      = "du.service"                    // a unit with CPUs of the shared pool

	laterConfig = "/etc/cpupoold/later.yaml" // a configuration with a key that no program knows
)

// ofBoth is a configuration that both programs know, with all that a daemon has to take over: partitions and a unit.
var ofBoth = strings.NewReplacer("staticPods: [kube-system, cpupoold]\n", "", "  cpus: 4-7\n", "  cpus: 4-7\n  isolation: partition\n").Replace(pools) +
	"units:\n  " + du + ": {pool: shared}\n"

// TestUpgrade goes from an earlier program to this one and back, as docs/how-to/upgrade.md describes it, while pods run. No container may
// move. Each program reads the other's journal, and in the end the earlier one restores the original values.
func TestUpgrade(t *testing.T) {
	if *earlier == "" {
		t.Skip("there is no earlier program: the history of the clone that this comes from does not go back to it (git fetch --unshallow)")
	}
	n := newNode(t)
	n.needsPartitions()
	n.run("cp", program, later)
	t.Cleanup(func() {
		n.stopDaemon()
		n.run("cp", "--remove-destination", later, program)
	})
	n.startUnit()
	n.install(*earlier)
	n.startDaemon(ofBoth)
	n.apply(slices.DeleteFunc(manifest.EveryKind(), func(p manifest.Pod) bool { return p.Name == "impostor" })...)
	wants := dropped(belongs(), "impostor")
	n.placed(wants...)
	wants = append(wants, n.ownCPUs(want{pod: "exclusive", container: "app"}), n.ownCPUs(want{pod: "mixed", container: "fast"}))
	n.quiet()
	n.arePartitions("exclusive", "mixed")
	first := n.originals()

	g := n.guard(wants)
	n.install(later)
	n.run("cpupoold", "check") // while the earlier daemon still runs
	if p := n.plan(); len(p.Writes)+len(p.Deferred) > 0 {
		t.Errorf("plan next to the earlier daemon = %v, %v; want none", p.Writes, p.Deferred)
	}
	n.run("systemctl", "restart", "cpupoold")
	n.quiet()
	n.keeps(first)
	// A key that the default earlier program does not know, and a container that it has not placed.
	read := len(n.records("configuration in force"))
	n.write(configFile, ofBoth+"staticPods: [kube-system]\n")
	n.eventually("the new key is read", func() error {
		if len(n.records("configuration in force")) == read {
			return errors.New("the daemon's log has no such line")
		}
		return nil
	})
	g.end("the upgrade", wants)
	n.apply(manifest.Pod{Name: "born", Namespace: "default", Containers: []manifest.Container{{Name: "app", CPU: "1", Memory: "20Mi", Limited: true}}})
	wants = append(wants, n.ownCPUs(want{pod: "born", container: "app"}))
	n.quiet()
	n.arePartitions("exclusive", "mixed", "born")

	g = n.guard(wants)
	n.write(laterConfig, ofBoth+"futureKey: 1\n")
	if out, err := n.try(*earlier, "check", "--config", laterConfig); err == nil || !strings.Contains(out, "futureKey") {
		t.Errorf("check of the earlier program: %v, %s; want an error that names the unknown key", err, out)
	}
	n.write(configFile, ofBoth)
	second := n.originals()
	n.install(*earlier)
	n.run("systemctl", "restart", "cpupoold")
	n.quiet()
	n.keeps(first)
	n.keeps(second)
	g.end("the way back", wants)
	n.arePartitions("exclusive", "mixed", "born")
	n.invariants()

	n.stopDaemon()
	n.run("cpupoold", "restore")
	n.restored("exclusive", "mixed", "born", "burstable", "agent")
}

// install puts a program in the daemon's place, which does not disturb one that runs.
func (n *node) install(file string) {
	n.Helper()
	n.run("cp", file, program+".new")
	n.run("mv", program+".new", program)
}

// startUnit starts the service that has CPUs of the shared pool.
func (n *node) startUnit() {
	n.Helper()
	file := "/run/systemd/system/" + du
	n.write(file, "[Service]\nExecStart=/bin/sleep infinity\n")
	n.run("systemctl", "daemon-reload")
	n.run("systemctl", "start", du)
	n.Cleanup(func() {
		n.run("systemctl", "stop", du)
		n.run("systemctl", "revert", du) // systemd keeps the daemon's settings for it
		if err := os.Remove(file); err != nil {
			n.Error(err)
		}
		n.run("systemctl", "daemon-reload")
	})
}

// arePartitions checks that the first container of each of these pods is a partition, and that the unit is on its CPUs.
func (n *node) arePartitions(pods ...string) {
	n.Helper()
	for _, pod := range pods {
		n.eventually("partition of "+pod, func() error {
			c, err := n.first(pod)
			if err == nil && !c.Partition.Is(cgroup.RootPartition) {
				err = fmt.Errorf("it is %s", c.Partition)
			}
			return err
		})
	}
	n.eventually("the unit's CPUs", func() error {
		if got := strings.TrimSpace(n.run("systemctl", "show", "-P", "AllowedCPUs", du)); got != "2-3" {
			return fmt.Errorf("AllowedCPUs of %s are %q", du, got)
		}
		return nil
	})
}

// first is the container of a pod that is named first in the manifests of manifest.EveryKind.
func (n *node) first(pod string) (container, error) {
	c, err := n.find(pod, "app")
	if err != nil {
		return n.find(pod, "fast")
	}
	return c, nil
}

// originals are those in the daemon's journal.
func (n *node) originals() []undo.Original {
	n.Helper()
	j, err := undo.File{Name: journal, RunDir: runFiles}.Find()
	if err != nil || j.Damage != nil || len(j.Originals) == 0 {
		n.Fatalf("the journal has the originals %v, %v, %v", j.Originals, err, j.Damage)
	}
	return j.Originals
}

// keeps checks that the journal still has these originals. Originals of cgroups that have ended may be missing: pods of the test
// before may end.
func (n *node) keeps(want []undo.Original) {
	n.Helper()
	if bad, err := filepath.Glob(journal + ".bad-*"); err != nil || len(bad) > 0 {
		n.Errorf("a journal was set aside: %v, %v", bad, err)
	}
	now := n.originals()
	for _, o := range want {
		if _, err := n.fs.Read(o.Path); o.Unit == "" && errors.Is(err, cgroup.ErrGone) {
			continue
		}
		if !slices.ContainsFunc(now, func(other undo.Original) bool { return cmp.Equal(o, other) }) {
			n.Errorf("journal = %+[2]v; want the original %+[1]v in it", o, now)
		}
	}
}

// restored checks that containers are as if there had never been a daemon. A runtime cannot record an empty set again; all CPUs stand for it.
func (n *node) restored(pods ...string) {
	n.Helper()
	if lists := n.lists(); len(lists) > 0 {
		n.Errorf("exclusive lists after restore = %v; want none", lists)
	}
	for _, pod := range pods {
		c, err := n.first(pod)
		if err != nil || !c.Partition.Is(cgroup.MemberPartition) || !c.CPUs.IsEmpty() && c.CPUs.String() != "0-7" || c.Effective.String() != "0-7" {
			n.Errorf("state of %s after restore = %+v, %v; want a member with all CPUs", pod, c.State, err)
		}
	}
	if got := strings.TrimSpace(n.run("systemctl", "show", "-P", "AllowedCPUs", du)); got != "" {
		n.Errorf("AllowedCPUs of %s after restore = %s; want none", du, got)
	}
	if _, err := os.Stat(journal); !errors.Is(err, fs.ErrNotExist) {
		n.Errorf("journal after restore: %v; want that it is gone", err)
	}
}

// guard looks at containers all the time, and remembers when anything about their CPUs or processes has changed.
type guard struct {
	*node

	stop, done chan struct{}
	was        map[cgroup.Path]string
	looks      int
	changes    []string
}

// guard begins to look at the containers that are wanted somewhere.
func (n *node) guard(wants []want) *guard {
	n.Helper()
	n.still("beginning of the guard", wants...)
	g := &guard{node: n, stop: make(chan struct{}), done: make(chan struct{}), was: make(map[cgroup.Path]string)}
	for _, w := range wants {
		c, err := n.find(w.pod, w.container)
		if err != nil {
			n.Fatal(err)
		}
		if g.was[c.path], err = n.look(c.path); err != nil {
			n.Fatal(err)
		}
	}
	go func() {
		defer close(g.done)
		tick := time.NewTicker(20 * time.Millisecond) // all the time would leave the daemon less of an emulated machine
		defer tick.Stop()
		for {
			select {
			case <-g.stop:
				return
			case <-tick.C:
			}
			for p, was := range g.was {
				if is, err := n.look(p); err != nil || is != was {
					g.changes = append(g.changes, fmt.Sprintf("%s was %s, and is %s, %v", p, was, is, err))
				}
			}
			g.looks++
		}
	}()
	return g
}

// look is all about a container that must not change.
func (n *node) look(p cgroup.Path) (string, error) {
	st, err := n.fs.Read(p)
	if err != nil {
		return "", err
	}
	lists, err := n.processes(p)
	return fmt.Sprintf("cpus=%s effective=%s %s weight=%d processes=%v", st.CPUs, st.Effective, st.Partition, st.Weight, lists), err
}

// end stops looking, and fails the test if anything has changed.
func (g *guard) end(during string, wants []want) {
	g.Helper()
	close(g.stop)
	<-g.done
	if len(g.changes) > 0 || g.looks == 0 {
		g.Errorf("during %s, in %d checks, %d changes; first: %v\n%s", during, g.looks, len(g.changes), g.changes[:min(len(g.changes), 3)], g.evidence())
	}
	g.Logf("%s: %d looks at %d containers", during, g.looks, len(g.was))
	g.still(during, wants...)
}
