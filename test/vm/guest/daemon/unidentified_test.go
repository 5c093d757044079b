//go:build guest

package daemon_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/cpupoold/cpupoold/internal/testing/invariants"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// TestUnidentified starts containers without NRI, which may begin before the daemon knows them. The kernel lets such a container use all CPUs
// of its pod until then, so the count outside of the pool has no limit. But each must end in its pool. From its first placement on, it must
// not run on an owner's CPUs.
func TestUnidentified(t *testing.T) {
	long(t)
	n := newNode(t)
	r := n.withoutKubelet()
	n.startDaemon(hourly + "nriSocket: none\n")
	owner := r.mustStart(2000, "default", nil)
	owned, err := cpuset.Parse(r.onCPUs(owner, 2))
	if err != nil {
		t.Fatal(err)
	}
	n.quiet()
	violation := n.sample(func(c invariants.Occupant) bool { return c.Exclusive })

	outside, trespassed := 0, 0
	check := func(p pod, pool cpuset.Set, count int) {
		var w startReport
		r.eventually("report of "+p.name, func() (err error) {
			if w, err = r.reported(p); err == nil && (w.cpus == "" || w.beganWith == "" || w.on == "") {
				err = fmt.Errorf("not complete: %+v", w)
			}
			return err
		})
		cpus, err1 := cpuset.Parse(w.cpus)
		on, err2 := cpuset.Parse(w.on)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatalf("%+v: %v", w, err)
		}
		if !cpus.IsSubsetOf(pool) || w.beganWith != fmt.Sprint(count) {
			outside++
		}
		if on.Overlaps(owned) {
			trespassed++
		}
		r.eventually(p.name+" in its pool", func() error {
			st, err := r.fs.Read(p.path)
			if err == nil && (st.Effective.Len() != count || !st.Effective.IsSubsetOf(pool)) {
				err = fmt.Errorf("it runs on %s; want %d of %s", st.Effective, count, pool)
			}
			return err
		})
	}
	shared, free := cpuset.Range(2, 3), guaranteed().Difference(owned)
	for i := range *oneByOne {
		milli, pool, count := int64(500), shared, 2
		if i%2 == 1 {
			milli, pool, count = 1000, free, 1
		}
		p, err := r.startReporter(milli)
		if err != nil {
			t.Fatalf("%v\n%s", err, n.evidence())
		}
		check(p, pool, count)
		r.removePod(p)
	}
	pods, errs := make([]pod, *atOnce), make([]error, *atOnce)
	var group sync.WaitGroup
	for i := range *atOnce {
		group.Go(func() { pods[i], errs[i] = r.startReporter(500) })
	}
	group.Wait()
	for i, p := range pods {
		if errs[i] != nil {
			t.Errorf("%v\n%s", errs[i], n.evidence())
			continue
		}
		check(p, shared, 2)
	}
	n.quiet()
	n.invariants()
	if err := r.runsOn(owner, owned.String(), 0); err != nil {
		t.Error(err)
	}
	if found := violation(); found != "" {
		t.Errorf("%s\n%s", found, n.evidence())
	}
	t.Logf("%d containers: %d began outside their pool, %d of them on the owner's CPUs", *oneByOne+*atOnce, outside, trespassed)
	for _, prefix := range []string{"cpupoold_placement_seconds", "cpupoold_placement_exposure_cpu_seconds"} {
		found := n.metrics(prefix)
		for _, series := range slices.Sorted(maps.Keys(found)) {
			t.Logf("%s %v", series, found[series])
		}
	}
}
