//go:build guest

package daemon_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/testing/testnode/walk"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

// runFiles is the directory from which applications read their CPUs.
const runFiles = "/run/cpupoold"

// TestObserve checks that mode: observe reports all pods, old and new, and that neither the daemon nor another program writes for it. The
// same watch sees the writes of a daemon that enforces.
func TestObserve(t *testing.T) {
	n := newNode(t)
	n.startUnit()
	config := pools + "units:\n  " + du + ": {pool: shared}\n"
	n.apply(manifest.EveryKind()...)
	for _, p := range manifest.EveryKind() {
		n.eventually("pod "+p.Name, func() error { _, err := n.first(p.Name); return err })
	}
	if err := os.RemoveAll(runFiles); err != nil { // of a daemon before this test
		t.Fatal(err)
	}
	before := n.values()
	watch := n.diesAfter(math.MaxInt) // it lives, and its writes are counted
	n.startDaemon(config + "mode: observe\n")
	tells := func(what string) {
		t.Helper()
		n.eventually(what, func() error {
			counts := n.metrics("cpupoold_observed_writes")
			for _, via := range []string{"file", "cri", "dbus"} {
				if counts[`cpupoold_observed_writes{via="`+via+`"}`] == 0 {
					return fmt.Errorf("writes are %v", counts)
				}
			}
			return nil
		})
	}
	tells("all ways of writing in the metrics")
	n.apply(manifest.Pod{Name: "late", Namespace: "default", Containers: []manifest.Container{{Name: "app", CPU: "1", Memory: "20Mi", Limited: true}}})
	n.eventually("the pod that has come, in log and plan", func() error {
		c, err := n.find("late", "app")
		if err != nil {
			return err
		}
		for _, r := range n.records("would write") {
			if w, is := r["write"].(map[string]any); is && w["path"] == string(c.path) {
				for _, planned := range n.plan().Writes {
					if planned.Path == c.path {
						return nil
					}
				}
				return errors.New("the plan has no writes of it")
			}
		}
		return errors.New("the log has no writes of it")
	})
	if err := os.Remove(filepath.Join(manifests, "fractional.yaml")); err != nil {
		t.Fatal(err)
	}
	n.run("systemctl", "reload", "cpupoold")
	n.run("systemctl", "restart", "cpupoold")
	tells("the same of the next daemon")
	n.unchanged(before)
	writes, _, err := watch.end()
	if err != nil || len(writes) > 0 {
		t.Errorf("a daemon that observes has written to %v, %v", writes, err)
	}
	for _, file := range []string{journal, runFiles + "/containers", runFiles + "/units"} {
		if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("it has made %s: %v", file, err)
		}
	}

	watch = n.diesAfter(math.MaxInt)
	n.stopDaemon()
	n.startDaemon(config)
	n.placed(dropped(belongs(), "fractional")...)
	n.ownCPUs(want{pod: "late", container: "app"})
	n.quiet()
	if writes, _, err := watch.end(); err != nil || len(writes) == 0 {
		t.Errorf("a daemon that enforces has written to %v, %v", writes, err)
	}
}

// values returns the values that daemons write in cgroups below kubepods.slice and of the unit. It has weights and quotas of containers only,
// because the kubelet writes those files of slices when pods start and stop.
func (n *node) values() map[string]string {
	n.Helper()
	all := make(map[string]string)
	if err := walk.Cgroups(n.fs, "kubepods.slice", func(p cgroup.Path) error {
		files := []string{cgroup.FileCPUs, cgroup.FileMems, cgroup.FilePartition, cgroup.FileExclusive}
		if strings.HasSuffix(string(p), ".scope") {
			files = append(files, cgroup.FileWeight, cgroup.FileMax)
		}
		for _, file := range files {
			if b, err := n.fs.ReadFile(p, file); err == nil {
				all[string(p)+"/"+file] = strings.TrimSpace(string(b))
			}
		}
		return nil
	}); err != nil {
		n.Fatal(err)
	}
	all[du] = n.run("systemctl", "show", "-P", "AllowedCPUs", du)
	if len(all) < 20 {
		n.Fatalf("reports = %v; want at least 20", all)
	}
	return all
}

// unchanged compares the values that still exist.
func (n *node) unchanged(was map[string]string) {
	n.Helper()
	is := n.values()
	maps.DeleteFunc(is, func(name, value string) bool {
		before, known := was[name]
		return !known || value == before
	})
	for name, value := range is {
		n.Errorf("%s changed from %q to %q; want no change", name, was[name], value)
	}
}
