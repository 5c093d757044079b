//go:build guest

package daemon_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/cpupoold/cpupoold/internal/testing/testnode/scenario"
	"github.com/cpupoold/cpupoold/pkg/cri"
	cpupools "github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// changes counts the actions of -more.
type changes struct {
	offline int // how often a CPU went
	refused int // and how often the kernel did not let it
	parted  int // owners that were partitions when the node had come to rest
}

// enoughSteps is the length from which a sequence must contain each of these.
const enoughSteps = 300

// asked reports whether NRI is on: with every other seed.
func (w *world) asked() bool { return *seed%2 == 1 }

// parts reports whether the configuration makes owners partitions.
func (w *world) parts() bool { return *moreSteps && w.partitions().Remote }

// bounds returns the bounds of the scenario. Only NRI reports resizes.
func (w *world) bounds() scenario.Bounds {
	b := scenario.Bounds{Pods: 5, CPUs: 3, Configs: len(w.configs), Units: scenario.Units(), Kills: 12}
	if *moreSteps {
		b.Pluggable = scenario.Pluggable()
		if w.asked() {
			b.Resizes = 20 // many find no container that fits
		}
	}
	return b
}

// undo leaves the node as the next test wants it.
func (w *world) undo() {
	if !*moreSteps {
		return
	}
	if err := w.plugCPUs(nil); err != nil {
		w.Error(err)
	}
	w.stopDaemon()
	w.run("cpupoold", "restore")
}

// tallies logs the counts of the actions. It fails if a long sequence lacks one of
// them.
func (w *world) tallies() {
	w.Helper()
	if !*moreSteps {
		return
	}
	w.Logf("%d resizes, %d times a CPU went offline, %d times it could not, %d owners seen that were partitions", w.kernel.resized, w.changes.offline,
		w.changes.refused, w.changes.parted)
	if *steps < enoughSteps {
		return
	}
	if w.asked() && w.kernel.resized == 0 || w.changes.offline == 0 || w.parts() && w.changes.parted == 0 {
		w.Error("the sequence lacks an action; want each of them")
	}
}

// modelRuntime implements scenario.Runtime.
type modelRuntime struct {
	*realRuntime
	w *world
}

// Resize lets others on the container's CPUs: it may ask for fewer, or share them from now on.
func (r modelRuntime) Resize(id string, to cri.Resources) error {
	r.w.mu.Lock()
	delete(r.w.owned, r.directory(id))
	r.w.mu.Unlock()
	return r.realRuntime.Resize(id, to)
}

// plugCPUs takes CPUs offline, and brings all others back. Owners may lose theirs, and run elsewhere until the daemon has moved them.
func (w *world) plugCPUs(offline []int) error {
	w.forget()
	for _, online := range []bool{true, false} {
		for _, cpu := range scenario.Pluggable() {
			if online == slices.Contains(offline, cpu) {
				continue
			}
			switch err := setOnline(cpu, online); {
			case !online && errors.Is(err, syscall.EBUSY): // seen on 6.12, of the only CPU of a partition: no room for its deadline server
				w.changes.refused++
			case err != nil:
				return err
			case !online:
				w.changes.offline++
			}
		}
	}
	t, err := topology.Read(os.DirFS("/sys"))
	if err != nil {
		return err
	}
	w.topology = t
	return nil
}

// settled checks that the daemon receives later events and that the kernel is in the requested state. Containers run on their planned CPUs,
// and owners are partitions where they should be.
func (w *world) settled(plan cpupools.Plan) error {
	root, err := w.fs.Read("")
	if err != nil {
		return err
	}
	parted := 0
	for _, pod := range plan.Pods {
		for _, c := range pod.Containers {
			if c.State != cpupools.Running || !w.pods.Runs(c.ID) {
				continue
			}
			st, err := w.fs.Read(w.kernel.paths[c.ID])
			switch {
			case err != nil:
				return err
			case !st.Effective.Equal(c.CPUs.Union(c.Mixed)):
				return fmt.Errorf("%s/%s runs on %s; planned is %s, and %s shared with it", pod.UID, c.Name, st.Effective, c.CPUs, c.Mixed)
			case !c.Exclusive || !w.parts() || !c.Mixed.IsEmpty(): // a partition has no CPUs that others run on
				continue
			case !st.Partition.Valid() || root.Effective.Overlaps(c.CPUs):
				return fmt.Errorf("%s/%s has %s for itself, and is %s; the root has %s", pod.UID, c.Name, c.CPUs, st.Partition, root.Effective)
			}
			parted++
		}
	}
	if err := w.listening(); err != nil {
		return err
	}
	w.changes.parted += parted
	return nil
}

// listening checks that the daemon receives events of CPUs and, by NRI, of resizes, and that no
// CPU is lost.
func (w *world) listening() error {
	status, body, err := w.get("/metrics")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("/metrics: status %d", status)
	}
	wants := []string{`cpupoold_source_state{source="cpu_hotplug",state="ok"} 1`}
	if w.asked() {
		wants = append(wants, `cpupoold_source_state{source="nri",state="ok"} 1`)
	}
	if w.parts() {
		wants = append(wants, "cpupoold_leaked_cpus 0")
	}
	for _, want := range wants {
		if err == nil && !strings.Contains(body, want) {
			err = errors.New("no " + want)
		}
	}
	return err
}
