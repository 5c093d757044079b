package daemon

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"sync"
	"testing"

	"github.com/cpupoold/cpupoold/internal/control"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode/scenario"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

var (
	modelSeed  = flag.Uint64("model.seed", 0, "run only the sequence of this seed in TestModel")
	modelSteps = flag.Int("model.steps", 0, "steps of TestModel, in sequences of 250; 0: a short sequence on each kind of node")
)

const (
	// sequenceSteps is the length of one sequence: long enough to start and stop pods a few times,
	// and short enough to read.
	sequenceSteps = 250
	// nodeKinds is the number of kinds of node: with and without NRI, and three kinds of
	// partitions.
	nodeKinds = 6
)

// modelConfigs returns the scenario's configurations with a far resync and confined host
// services. With one of them, CPUs that owners leave stay out of the shared pool.
func modelConfigs() []string {
	configs := scenario.Configurations()
	configs[1] = nodefixture.WithQuiet(configs[1], "1h")
	for i := range configs {
		configs[i] += "resyncPeriod: 10m\nweightFormula: quadratic\n" + nodefixture.HostSlicesYAML + liveYAML
	}
	return configs
}

// modelBounds returns bounds that allow resizes only with NRI, which alone reports them.
func modelBounds(nri bool) scenario.Bounds {
	b := scenario.Bounds{Pods: 7, CPUs: 3, Configs: len(modelConfigs()), Nodes: 2, Units: scenario.Units(), Moves: 5, Writes: 6, Pluggable: scenario.Pluggable()}
	if nri {
		b.Resizes = 8
	}
	return b
}

// TestModel runs random sequences and checks the invariants after each step. By default, it runs
// one short sequence on each kind of node. `make test-random` runs long ones. A failure names the
// seed: repeat it with -model.seed.
func TestModel(t *testing.T) {
	seeds, length := make([]uint64, nodeKinds), shortSteps
	if *modelSteps != 0 {
		seeds, length = make([]uint64, max(*modelSteps/sequenceSteps, 1)), sequenceSteps
	}
	for i := range seeds {
		seeds[i] = uint64(i) + 1
	}
	if *modelSeed != 0 {
		seeds, length = []uint64{*modelSeed}, sequenceSteps
	}
	var mu sync.Mutex // guards all
	all := tally{moves: make(map[control.Outcome]int)}
	next := make(chan uint64)
	var workers sync.WaitGroup
	for range sequencesAtOnce {
		workers.Go(func() {
			for seed := range next {
				t.Run(fmt.Sprint(seed), func(t *testing.T) {
					of := runSequence(t, seed, length)
					mu.Lock()
					defer mu.Unlock()
					all.add(of)
				})
			}
		})
	}
	for _, seed := range seeds {
		next <- seed
	}
	close(next)
	workers.Wait()
	switch {
	case *modelSeed != 0:
	case *modelSteps == 0:
		checkKinds(t, seeds)
	case len(seeds) >= nodeKinds:
		all.check(t)
	}
}

// checkKinds checks that the short sequences have each kind of step that the long ones have.
func checkKinds(t *testing.T, seeds []uint64) {
	t.Helper()
	kinds := func(seed uint64, length int) map[scenario.Kind]bool {
		found := make(map[scenario.Kind]bool)
		for _, s := range scenario.Generate(seed, length, modelBounds(seed%2 == 1)) {
			found[s.Kind] = true
		}
		return found
	}
	short := make(map[scenario.Kind]bool)
	for _, seed := range seeds {
		maps.Copy(short, kinds(seed, shortSteps))
	}
	for kind := range kinds(1, 20*sequenceSteps) {
		if !short[kind] {
			t.Errorf("no sequence of %d steps has the step %q", shortSteps, kind)
		}
	}
}

// tally counts the cases that must not be rare in all sequences together. In a single sequence
// the kubelet may be silent, or CPUs offline, most of the time.
type tally struct {
	moves         map[control.Outcome]int
	made, refused int // Containers.
	parked        int // Number of times that CPUs were parked.
	rested        int // Number of times that CPUs stayed out of the shared pool.
	alone         int // Containers that a partial pass would have placed.
	mixed         int // Containers with shared CPUs in addition to exclusive ones.
}

func (y *tally) add(of tally) {
	for outcome, n := range of.moves {
		y.moves[outcome] += n
	}
	y.made += of.made
	y.refused += of.refused
	y.parked += of.parked
	y.rested += of.rested
	y.mixed += of.mixed
	y.alone += of.alone
}

func (y *tally) check(t *testing.T) {
	t.Helper()
	if y.moves[control.Done] == 0 || y.moves[control.Refused] == 0 {
		t.Errorf("moves that were asked for: %v; want some that are done and some that are refused", y.moves)
	}
	if y.parked == 0 {
		t.Error("no CPUs were ever parked")
	}
	if y.rested == 0 {
		t.Error("no CPUs ever stayed out of the shared pool")
	}
	if y.alone < y.made {
		t.Errorf("%d were placed alone of %d containers, at all times together", y.alone, y.made)
	}
	if y.mixed == 0 {
		t.Error("no container ever shared CPUs beside its own")
	}
	if y.refused > y.made {
		t.Errorf("%d containers were created and %d refused; want that most can be", y.made, y.refused)
	}
}

// sequencesAtOnce is larger than the number of CPUs of a small machine: most of a sequence's
// time is waiting.
const sequencesAtOnce = 8

// runSequence returns the counts of a sequence.
func runSequence(t *testing.T, seed uint64, length int) tally {
	nri := seed%2 == 1
	steps := scenario.Generate(seed, length, modelBounds(nri))
	w := newWorld(t, nri, seed/2%3)
	err := scenario.Run(w, steps)
	if err == nil {
		err = w.end()
	}
	if err != nil {
		t.Fatalf("%v\nagain: go test ./internal/node/daemon -run TestModel -model.seed %d\n%s%s", err, seed, w.Dump(), w.tail())
	}
	if w.Kernel.Remote && w.parted == 0 {
		t.Error("no container has ever been a partition")
	}
	of := tally{moves: w.moves, parked: w.parked, rested: w.rested, mixed: w.mixed, alone: w.alone}
	of.made, of.refused = w.pods.Created()
	return of
}

// end stops the daemon and checks the files that it leaves.
func (w *world) end() error {
	held := make(map[string]string)
	for _, a := range w.seen.plan.Assignments {
		held[a.PodUID+"/"+a.Container] = a.CPUs.String()
	}
	if err := w.await("journal on disk", func() bool { return w.inspect().journaled }); err != nil {
		return err
	}
	w.r.stop()
	var errs []error
	for _, a := range w.Journal().Assignments {
		key := a.PodUID + "/" + a.Container
		if held[key] != a.CPUs.String() {
			errs = append(errs, fmt.Errorf("journal: %s has %s; the plan gives it %q", key, a.CPUs, held[key]))
		}
		delete(held, key)
	}
	for key, cpus := range held {
		errs = append(errs, fmt.Errorf("journal: nothing of %s, which has %s", key, cpus))
	}
	for _, pod := range w.seen.plan.Pods {
		for _, c := range pod.Containers {
			if c.Kind == pools.App && w.pods.Runs(c.ID) && w.cpuFile(pod.UID, c.Name)["cpus"] != c.CPUs.String() {
				errs = append(errs, fmt.Errorf("%s/%s was told %v; it has %s", pod.UID, c.Name, w.cpuFile(pod.UID, c.Name), c.CPUs))
			}
		}
	}
	return errors.Join(errs...)
}
