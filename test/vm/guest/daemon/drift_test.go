//go:build guest

package daemon_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/systemd"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

// These take a quarter of an hour: `make test-drift`.
var driftTests = flag.Bool("drift", false, "run the tests of external writes, and of containers without NRI")

func long(t *testing.T) {
	t.Helper()
	if !*driftTests {
		t.Skip("not asked for: make test-drift")
	}
}

const driftRepeats = 20

// hourly is pools with a resync so far away that only events repair anything.
var hourly = strings.Replace(pools, "resyncPeriod: 5m", "resyncPeriod: 1h", 1)

// victim is a container that others write to.
type victim struct {
	pod
	cpus   string // that it has
	weight uint64 // 0: the daemon gives it none
	lent   string // values that other processes write: CPUs without an exclusive owner
	slice  uint64 // the weight that the kubelet has given the pod
	writes map[string][]time.Time
}

// drifter writes to containers of every pool and counts the daemon's repairs.
type drifter struct {
	*runtimeNode
	systemd *systemd.Client
	all     []*victim
	crowded bool // next returns one victim, and prepares the write for all of them
	echoed  bool // next prepares a write by the runtime, which also writes the weight, maybe twice
}

// newDrifter starts the daemon on a node with containers.
func newDrifter(t *testing.T, config string) *drifter {
	t.Helper()
	d := emptyDrifter(t)
	d.fill()
	d.startDaemon(config)
	d.settle()
	return d
}

func emptyDrifter(t *testing.T) *drifter {
	t.Helper()
	d := &drifter{runtimeNode: newNode(t).withoutKubelet(), systemd: systemd.New(cpuset.Range(0, 7))}
	t.Cleanup(d.systemd.Close)
	return d
}

// fill makes four containers of management, two of shared and two exclusive ones.
func (d *drifter) fill() {
	d.Helper()
	add := func(milli int64, namespace string, annotations map[string]string, v victim) {
		v.pod, v.writes = d.mustStart(milli, namespace, annotations), make(map[string][]time.Time)
		if v.slice > 0 { // the kubelet makes slices with a weight
			d.setWeight(v.path.Parent(), v.slice)
		}
		d.all = append(d.all, &v)
	}
	for i := range 4 {
		add(100, "kube-system", manifest.Management(map[string]string{"app": "512"}), victim{cpus: "0-1", weight: 59, lent: "2", slice: uint64(4 + i)})
	}
	for range 2 {
		add(500, "default", nil, victim{cpus: "2-3", lent: "1"})
	}
	for range 2 {
		add(1000, "default", nil, victim{lent: "7"}) // systemd's recorded CPUs of an owner have no other owner
	}
}

// settle waits until all have their place, and the daemon listens and has nothing to do.
func (d *drifter) settle() {
	d.Helper()
	for _, v := range d.all {
		if v.cpus == "" {
			v.cpus = d.onCPUs(v.pod, 1)
		}
		d.eventually(v.name+" placed", func() error { return d.runsOn(v.pod, v.cpus, v.weight) })
	}
	d.eventually("the daemon listens to the cgroups", func() error {
		_, body, err := d.get("/metrics")
		if err == nil && !strings.Contains(body, `cpupoold_source_state{source="inotify",state="ok"} 1`) {
			err = errors.New("it does not")
		}
		return err
	})
	d.quiet()
}

func (d *drifter) setWeight(p cgroup.Path, weight uint64) {
	d.Helper()
	d.set(p, systemd.Property{Name: cgroup.UnitWeight, Value: fmt.Sprint(weight)})
}

func (d *drifter) set(p cgroup.Path, property systemd.Property) {
	d.Helper()
	unit, ok := p.Unit()
	if !ok {
		d.Fatalf("%s is no unit", p)
	}
	ctx, cancel := context.WithTimeout(context.Background(), nodeTimeout)
	defer cancel()
	if err := d.systemd.SetProperties(ctx, unit, []systemd.Property{property}); err != nil {
		d.Fatal(err)
	}
}

// update makes the runtime update a container, as another client would.
func (d *drifter) update(v *victim, res *runtime.LinuxContainerResources) {
	d.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), nodeTimeout)
	defer cancel()
	if _, err := d.rpc.UpdateContainerResources(ctx, &runtime.UpdateContainerResourcesRequest{ContainerId: v.container, Linux: res}); err != nil {
		d.Fatal(err)
	}
}

func (d *drifter) rawWrite(p cgroup.Path, file, value string) {
	d.Helper()
	if err := d.fs.Write(p, file, value); err != nil {
		d.Fatal(err)
	}
}

// metrics are the daemon's, by name with labels, that begin with prefix.
func (n *node) metrics(prefix string) map[string]float64 {
	n.Helper()
	all := make(map[string]float64)
	n.eventually("metrics", func() error {
		status, body, err := n.get("/metrics")
		if err != nil || status != http.StatusOK {
			return errors.Join(fmt.Errorf("status %d", status), err)
		}
		for line := range strings.Lines(body) {
			if i := strings.LastIndexByte(line, ' '); i > 0 && strings.HasPrefix(line, prefix) {
				if all[line[:i]], err = strconv.ParseFloat(strings.TrimSpace(line[i:]), 64); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return all
}

// more returns the growth of the counters since before.
func more(before, now map[string]float64) map[string]float64 {
	now = maps.Clone(now)
	for k := range now {
		if now[k] -= before[k]; now[k] == 0 {
			delete(now, k)
		}
	}
	return now
}

// as compares a victim and its slice with the desired state.
func (d *drifter) as(v *victim) error {
	st, err := d.fs.Read(v.path)
	if err != nil {
		return err
	}
	if st.CPUs.String() != v.cpus {
		err = fmt.Errorf("%s has cpuset.cpus %s; want %s", v.name, st.CPUs, v.cpus)
	}
	return errors.Join(err, d.runsOn(v.pod, v.cpus, v.weight))
}

// outcome counts the results of a number of drifts.
type outcome struct{ right, unknown, uncounted int }

// provoke makes drifts of one cause, one after another. Each is repaired, and counted with the right cause or with none. The daemon
// repairs a write without counting it while it updates the same cgroup, itself or through the runtime.
func (d *drifter) provoke(cause, property string, of func(*victim) bool, repaired func(*victim) error, write func(*victim, int)) (o outcome) {
	d.Helper()
	if repaired == nil {
		repaired = d.as
	}
	for i := range driftRepeats {
		v := d.next(property, of)
		before := d.metrics("cpupoold_drift_total")
		write(v, i)
		d.eventually("repair of "+property+" of "+v.name, func() error { return repaired(v) })
		found := d.counted(before)
		// The runtime repairs its record, too, by an update, and writes its own weight once more.
		d.eventually("record of "+property+" of "+v.name, func() error { return repaired(v) })
		d.passed(property, v)
		right, unknown := false, false
		for series := range found {
			switch {
			case strings.Contains(series, `cause="unknown"`):
				unknown = true
			case cause != "" && strings.Contains(series, `cause="`+cause+`"`):
				right = true
			default:
				d.Errorf("drift %d of %s (%s, cause %q) is counted as %s\n%s", i, v.name, property, cause, series, d.evidence())
			}
		}
		switch {
		case right:
			o.right++
		case unknown:
			o.unknown++
		default:
			o.uncounted++
		}
	}
	if o.uncounted > driftRepeats/2 {
		d.Errorf("uncounted drifts of %s = %+v; want at most half", property, o)
	}
	d.Logf("%s, cause %q: %+v", property, cause, o)
	return o
}

// counted returns the growth of the counters since before, as soon as one has grown, or
// after ten seconds.
func (d *drifter) counted(before map[string]float64) (found map[string]float64) {
	d.Helper()
	for deadline := time.Now().Add(10 * time.Second); len(found) == 0 && time.Now().Before(deadline); {
		found = more(before, d.metrics("cpupoold_drift_total"))
	}
	return found
}

// undisturbed waits until the daemon has placed all victims and has no work left.
func (d *drifter) undisturbed() {
	d.Helper()
	d.quiet()
	for _, v := range d.all {
		if err := d.as(v); err != nil {
			d.Error(err)
		}
	}
	d.invariants()
	if series := d.metrics(`cpupoold_problems{code="Contested"}`); len(series) > 0 {
		for name, n := range series {
			if n > 0 {
				d.Errorf("%s = %v; want 0: the test writes too often", name, n)
			}
		}
	}
	buckets := d.metrics("cpupoold_drift_repair_seconds")
	for _, name := range slices.Sorted(maps.Keys(buckets)) {
		d.Logf("%s %v", name, buckets[name])
	}
}

func managed(v *victim) bool { return v.weight != 0 }

// TestDrift provokes writes of every cause. With the resync an hour away, an event triggers each repair, and no drift gets a wrong cause.
func TestDrift(t *testing.T) {
	long(t)
	d := newDrifter(t, hourly+"nriSocket: none\n")
	d.provoke("", cgroup.FileCPUs, nil, nil, func(v *victim, _ int) { d.rawWrite(v.path, cgroup.FileCPUs, v.lent) })
	d.provoke("", cgroup.FileWeight, managed, nil, func(v *victim, i int) { d.rawWrite(v.path, cgroup.FileWeight, fmt.Sprint(1000+i)) })
	d.quiet()
	d.echoed = true
	if o := d.provoke("runtime", cgroup.FileCPUs, nil, nil, func(v *victim, _ int) {
		d.update(v, &runtime.LinuxContainerResources{CpusetCpus: v.lent})
	}); o.right == 0 {
		t.Error("drifts of the runtime's cpusets with their cause = 0; want some")
	}
	if o := d.provoke("runtime", cgroup.FileWeight, managed, nil, func(v *victim, i int) {
		d.update(v, &runtime.LinuxContainerResources{CpuShares: int64(2000 + 100*i)})
	}); o.right == 0 {
		t.Error("drifts of the runtime's shares with their cause = 0; want some")
	}
	d.echoed = false
	slice := func(v *victim) error {
		st, err := d.fs.Read(v.path.Parent())
		if err == nil && st.Weight != cgroup.WeightLinear(512) {
			err = fmt.Errorf("slice of %s has weight %d", v.name, st.Weight)
		}
		return err
	}
	d.quiet()
	if o := d.provoke("kubelet", "slice", managed, slice, func(v *victim, _ int) { d.setWeight(v.path.Parent(), v.slice) }); o.right == 0 {
		t.Error("drifts of the kubelet's weights with their cause = 0; want some")
	}
	d.provoke("", "slice", managed, slice, func(v *victim, i int) { d.setWeight(v.path.Parent(), uint64(1000+i)) })
	d.undisturbed()
}

// TestDriftReload checks that systemd writes its own recorded CPUs again while the runtime is stopped, and that the daemon repairs them. A
// reload alone makes some versions of systemd write; systemd 257 writes them when any property is set afterwards.
func TestDriftReload(t *testing.T) {
	long(t)
	d := newDrifter(t, hourly)
	before := d.metrics("cpupoold_drift_total")
	for range 3 {
		d.run("systemctl", "daemon-reload")
	}
	d.undisturbed()
	if found := more(before, d.metrics("cpupoold_drift_total")); len(found) > 0 {
		t.Errorf("drifts by reloads = %v; want none", found)
	}

	t.Cleanup(func() { d.run("systemctl", "start", "containerd") }) // it is to remove the pods
	d.run("systemctl", "stop", "containerd")
	for _, v := range d.all {
		d.set(v.path, systemd.Property{Name: cgroup.UnitCPUs, Value: v.lent})
		d.next(cgroup.FileCPUs, func(other *victim) bool { return other == v })
		d.eventually("repair of "+v.name, func() error { return d.as(v) })
	}
	tasks := 0
	reapply := func(v *victim, _ int) {
		tasks++
		d.run("systemctl", "set-property", "--runtime", v.path.Base(), fmt.Sprintf("TasksMax=%d", 10_000+tasks))
	}
	d.provoke("", cgroup.FileCPUs, nil, nil, reapply)
	before = d.metrics("cpupoold_drift_total")
	d.crowded = true
	v := d.next(cgroup.FileCPUs, nil)
	d.run("systemctl", "daemon-reload")
	d.crowded = len(d.counted(before)) > 0
	d.passed(cgroup.FileCPUs, v)
	d.Logf("a reload alone writes the recorded values again: %v", d.crowded)
	d.provoke("systemd_reload", cgroup.FileCPUs, nil, nil, func(v *victim, i int) {
		d.run("systemctl", "daemon-reload")
		reapply(v, i)
	})
	d.run("systemctl", "start", "containerd")
	d.undisturbed()
}

// TestDriftAsked checks that no drift occurs with NRI, because the daemon changes an update before the runtime writes it. The containers
// of this test were created with NRI. For other containers the runtime records its own weight and quota, and writes both with each
// update.
func TestDriftAsked(t *testing.T) {
	long(t)
	d := emptyDrifter(t)
	d.startDaemon(hourly)
	d.nriConnected()
	d.fill()
	d.settle()
	before := d.metrics("cpupoold_drift_total")
	for range driftRepeats {
		v := d.next("asked", nil)
		d.update(v, &runtime.LinuxContainerResources{CpusetCpus: v.lent})
		if err := d.as(v); err != nil {
			t.Errorf("after an update: %v\n%s", err, d.evidence())
		}
	}
	for i := range driftRepeats {
		v := d.next("asked", managed)
		d.update(v, &runtime.LinuxContainerResources{CpuShares: int64(2000 + 100*i)})
		if err := d.as(v); err != nil {
			t.Errorf("after an update: %v\n%s", err, d.evidence())
		}
	}
	d.undisturbed()
	if found := more(before, d.metrics("cpupoold_drift_total")); len(found) > 0 {
		t.Errorf("drifts with NRI = %v; want none", found)
	}
}
