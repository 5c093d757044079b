//go:build guest

package daemon_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/preview"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	cpupools "github.com/cpupoold/cpupoold/pkg/pools"
)

// await waits for cond, which a fault of the daemon can make false. A timeout ends the
// scenario only.
func (w *world) await(cond func() error) error {
	deadline := time.Now().Add(nodeTimeout / 3)
	tick := time.NewTicker(200 * time.Millisecond) // each look takes the daemon's CPU away
	defer tick.Stop()
	for {
		err := cond()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		<-tick.C
	}
}

// preview returns the writes of a daemon that starts now.
func (w *world) preview() (preview.Preview, error) {
	ctx, cancel := context.WithTimeout(context.Background(), nodeTimeout)
	defer cancel()
	return preview.DryRun(ctx, w.config, w.topology, slog.New(slog.DiscardHandler))
}

// resting checks that the daemon has made all writes that a new daemon would make, that it has recorded the same values, and that both
// have found all pods. Otherwise it returns the missing part.
func (w *world) resting() error {
	p, err := w.preview()
	if err != nil {
		return err
	}
	w.rest = p
	if len(p.Writes)+len(p.Deferred)+len(p.Unread) > 0 {
		return fmt.Errorf("still to do: %v %v %v", p.Writes, p.Deferred, p.Unread)
	}
	if err := w.pods.Known(p.Plan); err != nil {
		return err
	}
	if w.config.OnRefusal == config.RefusalFail {
		for _, pod := range p.Plan.Pods {
			for _, c := range pod.Containers {
				if c.Refused != nil && c.State == cpupools.Running {
					return fmt.Errorf("%s/%s was refused and runs", pod.Name, c.Name)
				}
			}
		}
	}
	if err := recorded(p.Plan); err != nil || !*moreSteps {
		return err
	}
	return w.settled(p.Plan)
}

// recorded checks that the daemon's journal has the assignments of a plan.
func recorded(plan cpupools.Plan) error {
	j, err := undo.File{Name: journal, RunDir: runFiles}.Find()
	if err = cmp.Or(err, j.Damage); err != nil {
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
		return nil // the next step detects the change
	}
	on, err := w.config.Resolve(w.topology)
	if err != nil {
		return err
	}
	exclusive, err := w.pods.Check(w.rest.Plan, on)
	owned := make(map[string]cpuset.Set)
	for id, cpus := range exclusive {
		owned[w.kernel.directory(id)] = cpus
	}
	w.mu.Lock()
	w.owned = owned
	w.mu.Unlock()
	return err
}
