package daemon

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/systemd"
)

// causes returns the counts of the last view minus the counts of before.
func (r *running) causes(before map[telemetry.Drift]uint64) map[telemetry.Drift]uint64 {
	now := make(map[telemetry.Drift]uint64)
	for d, n := range r.loop.publisher.Metrics().Drifts {
		if n > before[d] {
			now[d] = n - before[d]
		}
	}
	return now
}

// makeDrift makes a drift and waits until it is counted. A drift of a weight during an own update
// is repaired with it and not counted, so that provoke makes it again.
func (r *running) makeDrift(write func() error, property string, right telemetry.Cause) (was telemetry.Cause) {
	r.T.Helper()
	r.forgetDrift()
	before := r.loop.publisher.Metrics().Drifts
	var made time.Time
	r.view("drift of "+property+" counted", func(*telemetry.View) bool {
		if r.clock.now().Sub(made) > time.Second {
			if err := write(); err != nil {
				r.T.Fatal(err)
			}
			made = r.clock.now()
		}
		for d := range r.causes(before) {
			if d.Property == property {
				was = d.Cause
				return true
			}
		}
		return false
	})
	if was != right && was != telemetry.CauseUnknown {
		r.T.Errorf("a write by %s is put down to %s", right, was)
	}
	return was
}

const repetitions = 20

// TestCausesToldApart provokes each cause many times and checks that it is reported correctly
// or as unknown.
func TestCausesToldApart(t *testing.T) {
	n := newNodeOn(t, testnode.CgroupConfig{ClearPopulated: true})
	n.YAML = strings.Replace(n.YAML, "resyncPeriod: 10m", "resyncPeriod: 1h", 1)
	r := n.start()
	id := n.RunContainer(n.RunPod("a", "kube-system", "burstable", 0, nodefixture.Management(map[string]int{"a": 512})), "a", nodefixture.WholeCPUs(1))
	n.AwaitCPUs(id, "0-1")
	r.settled()
	scope := n.Runtime.Cgroup(id)
	slice := path.Dir(scope)
	kubelets := "100"
	for _, o := range n.Journal().Originals {
		if string(o.Path) == slice && o.File == cgroup.FileWeight {
			kubelets = o.Value
		}
	}
	set := func(unit, property, value string) func() error {
		return func() error {
			return n.Units.SetProperties(context.Background(), unit, []systemd.Property{{Name: property, Value: value}})
		}
	}
	right := make(map[telemetry.Cause]int)
	for i := range repetitions {
		for _, c := range []struct {
			cause    telemetry.Cause
			property string
			write    func() error
		}{
			{telemetry.CauseUnknown, cgroup.FileCPUs, func() error { return n.Tree.Write(scope+"/"+cgroup.FileCPUs, fmt.Sprint(2+i%6)) }},
			{telemetry.CauseUnknown, cgroup.FileWeight, set(path.Base(scope), cgroup.UnitWeight, fmt.Sprint(1000+i))},
			{telemetry.CauseUnknown, cgroup.FileWeight, set(path.Base(slice), cgroup.UnitWeight, fmt.Sprint(1000+i))},
			{telemetry.CauseRuntime, cgroup.FileCPUs, func() error { return n.Client.UpdateCPUs(t.Context(), id, cpuset.Of(2+i%6)) }},
			{telemetry.CauseKubelet, cgroup.FileWeight, set(path.Base(slice), cgroup.UnitWeight, kubelets)},
		} {
			// A value that is written during an own update is repaired with it, and not
			// counted.
			began := r.clock.now()
			r.forgetDrift()
			r.view("at rest", func(v *telemetry.View) bool { return v.LastSuccess.After(began) })
			if got := r.makeDrift(c.write, c.property, c.cause); got == c.cause {
				right[got]++
			}
			n.AwaitFile(scope, cgroup.FileCPUs, "0-1")
		}
	}
	t.Logf("told right: %v", right)
	for _, cause := range []telemetry.Cause{telemetry.CauseRuntime, telemetry.CauseKubelet} {
		if right[cause] == 0 {
			t.Errorf("%s is never recognised", cause)
		}
	}
}

// TestReloadTold checks that a reload of systemd is the cause of a drift if systemd has not
// recorded the value.
func TestReloadTold(t *testing.T) {
	n := newNodeOn(t, testnode.CgroupConfig{ClearPopulated: true})
	n.YAML = strings.Replace(n.YAML, "resyncPeriod: 10m", "resyncPeriod: 1h", 1)
	r := n.start()
	r.settled()
	n.Runtime.Fail("UpdateContainerResources", errors.New("no"))
	id := n.RunContainer(n.RunPod("a", "default", "burstable", 0, nil), "a", nodefixture.WholeCPUs(0))
	n.AwaitCPUs(id, "2-3")
	right := 0
	for range repetitions {
		reload := func() error { n.Units.Reload(); return nil }
		if r.makeDrift(reload, cgroup.FileCPUs, telemetry.CauseSystemd) == telemetry.CauseSystemd {
			right++
		}
		n.AwaitCPUs(id, "2-3")
	}
	if right == 0 {
		t.Error("a reload is never recognised")
	}
	t.Logf("told right: %d of %d", right, repetitions)
}
