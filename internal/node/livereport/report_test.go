package livereport_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cpupoold/cpupoold/internal/node/audit"
	"github.com/cpupoold/cpupoold/internal/node/livereport"
	"github.com/cpupoold/cpupoold/internal/node/schedwatch"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// guaranteed returns the pool of exclusive CPUs.
func guaranteed() audit.PoolName { return audit.PoolName{Pool: "guaranteed"} }

// place returns an exclusive container.
func place(pod, name, cgroup string, cpus cpuset.Set) audit.Place {
	return audit.Place{PoolName: guaranteed(), Pod: pod, Name: name, Cgroup: cgroup, CPUs: cpus, Exclusive: true}
}

func duOwner(cpus cpuset.Set) audit.Owner {
	return audit.Owner{PoolName: guaranteed(), Pod: "ran/vdu-0", Name: "du", CPUs: cpus}
}

// du is the only exclusive container of most tests, next to a shared one.
func du() audit.Ownership {
	return audit.Ownership{Places: []audit.Place{
		place("ran/vdu-0", "du", "pods/du", cpuset.Range(4, 5)),
		{PoolName: audit.PoolName{Pool: "shared"}, Pod: "shop/web", Name: "nginx", Cgroup: "pods/web", CPUs: cpuset.Range(2, 3)},
	}}
}

// cpu returns the counts of a CPU that was watched for ten seconds. The counts are in the order of the kinds.
func cpu(n int, foreign ...schedwatch.Count) schedwatch.CPU {
	c := schedwatch.CPU{CPU: n, Watched: 10 * time.Second}
	copy(c.Foreign[:], foreign)
	return c
}

// report returns the report of readings while the owners stay the same.
func report(o audit.Ownership, readings ...schedwatch.Reading) livereport.Report {
	var c livereport.Collector
	for _, r := range readings {
		c.Add(r)
	}
	return c.Report(o, o)
}

// TestReport checks shares, kinds and rows of two readings.
func TestReport(t *testing.T) {
	got := report(du(),
		schedwatch.Reading{Tasks: []schedwatch.Task{
			{CPU: 5, Kind: schedwatch.User, Command: "spin", CgroupID: 70, Cgroup: "pods/web/child", Time: 3 * time.Millisecond, Switches: 1},
			{CPU: 4, Kind: schedwatch.BoundKernel, Command: "ksoftirqd/4", CgroupID: 1, Time: time.Millisecond, Switches: 5},
		}},
		schedwatch.Reading{
			CPUs: []schedwatch.CPU{
				cpu(4, schedwatch.Count{Time: time.Second, Switches: 2}, schedwatch.Count{Time: time.Millisecond, Switches: 5}),
				cpu(5, schedwatch.Count{Time: 5 * time.Millisecond, Switches: 3}, schedwatch.Count{Time: 2 * time.Millisecond, Switches: 7}, schedwatch.Count{Time: time.Microsecond, Switches: 1}),
			},
			Tasks: []schedwatch.Task{
				{CPU: 4, Kind: schedwatch.User, Command: "spin", CgroupID: 70, Cgroup: "pods/web/child", Time: time.Second, Switches: 2},
				{CPU: 5, Kind: schedwatch.User, Command: "spin", CgroupID: 70, Cgroup: "pods/web/child", Time: 2 * time.Millisecond, Switches: 2},
				{CPU: 5, Kind: schedwatch.BoundKernel, Command: "ksoftirqd/5", CgroupID: 1, Time: 2 * time.Millisecond, Switches: 7},
				{CPU: 5, Kind: schedwatch.OtherKernel, Command: "kworker/u16:3", CgroupID: 1, Time: time.Microsecond, Switches: 1},
				{CPU: 2, Kind: schedwatch.User, Command: "nginx", CgroupID: 69, Cgroup: "pods/web", Time: time.Hour, Switches: 1}, // no exclusive CPU
			},
			Runs: 1000, RunTime: 80 * time.Microsecond, BTF: true,
		})
	share := 1 - 1.005001/20
	want := livereport.Report{
		CPUs: cpuset.Range(4, 5), Watched: 20, Foreign: 1.005001, Share: &share,
		Owners: []livereport.OwnerShare{{Owner: duOwner(cpuset.Range(4, 5)), Watched: 20, Foreign: 1.005001, Share: share}},
		Kinds: []livereport.Total{
			{Kind: "user", Seconds: 1.005, Switches: 5}, {Kind: "kernel_bound", Seconds: 0.003, Switches: 12},
			{Kind: "kernel_other", Seconds: 0.000001, Switches: 1}, {Kind: "unknown"},
		},
		Tasks: []livereport.Row{
			{Total: livereport.Total{Kind: "user", Seconds: 1.005, Switches: 5}, Owner: duOwner(cpuset.Range(4, 5)), Command: "spin", Cgroup: "pods/web/child", CgroupID: 70, Pod: "shop/web", Container: "nginx"},
			{Total: livereport.Total{Kind: "kernel_other", Seconds: 0.000001, Switches: 1}, Owner: duOwner(cpuset.Of(5)), Command: "kworker/u16:3", Cgroup: "/", CgroupID: 1},
			{Total: livereport.Total{Kind: "kernel_bound", Seconds: 0.003, Switches: 12}, Owner: duOwner(cpuset.Range(4, 5)), Command: "ksoftirqd/*", Cgroup: "/", CgroupID: 1},
		},
		Probe: livereport.Probe{Mode: "btf", Runs: 1000, Seconds: 0.00008},
	}
	if d := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-12)); d != "" {
		t.Errorf("report (-want +got):\n%s", d)
	}
}

// TestForeign checks which kinds are findings.
func TestForeign(t *testing.T) {
	for kind, want := range []bool{true, false, true, true} {
		var foreign [schedwatch.Kinds]schedwatch.Count
		foreign[kind] = schedwatch.Count{Switches: 1}
		r := report(du(), schedwatch.Reading{CPUs: []schedwatch.CPU{cpu(4, foreign[:]...)}})
		found := false
		for _, k := range r.Kinds {
			found = found || k.IsForeign()
		}
		if found != want {
			t.Errorf("a task of kind %d is a finding: %t; want %t", kind, found, want)
		}
	}
	if r := report(du(), schedwatch.Reading{CPUs: []schedwatch.CPU{cpu(4)}}); *r.Share != 1 || r.Kinds[0].IsForeign() {
		t.Errorf("report without foreign tasks: %+v; want the share 1 and no finding", r)
	}
}

// TestOwnersChange checks that a CPU counts only if it kept its owner and the owner's cgroups.
func TestOwnersChange(t *testing.T) {
	pool := func(cgroups ...string) (o audit.Ownership) {
		for _, cgroup := range cgroups {
			p := place("ran/pool", cgroup, cgroup, cpuset.Of(4))
			p.PodPool = true
			o.Places = append(o.Places, p)
		}
		return o
	}
	one := func(pod, name, cgroup string, cpus ...int) audit.Ownership {
		return audit.Ownership{Places: []audit.Place{place(pod, name, cgroup, cpuset.Of(cpus...))}}
	}
	for name, c := range map[string]struct {
		before, after    audit.Ownership
		counted, changed cpuset.Set
	}{
		"same":                {one("a", "b", "g", 4), one("a", "b", "g", 4), cpuset.Of(4), cpuset.Set{}},
		"another owner":       {one("a", "b", "g", 4), one("c", "d", "h", 4), cpuset.Set{}, cpuset.Of(4)},
		"another name":        {one("a", "b", "g", 4), one("a", "c", "g", 4), cpuset.Set{}, cpuset.Of(4)},
		"container restarted": {one("a", "b", "g", 4), one("a", "b", "h", 4), cpuset.Set{}, cpuset.Of(4)},
		"owner ended":         {one("a", "b", "g", 4), audit.Ownership{}, cpuset.Set{}, cpuset.Of(4)},
		"owner came":          {audit.Ownership{}, one("a", "b", "g", 4), cpuset.Set{}, cpuset.Of(4)},
		"one CPU more":        {one("a", "b", "g", 4), one("a", "b", "g", 4, 5), cpuset.Of(4), cpuset.Of(5)},
		"moved":               {one("a", "b", "g", 4, 5), one("a", "b", "g", 5, 6), cpuset.Of(5), cpuset.Of(4, 6)},
		"pod pool":            {pool("x", "y"), pool("y", "x"), cpuset.Of(4), cpuset.Set{}},
		"pod pool grew":       {pool("x"), pool("x", "y"), cpuset.Set{}, cpuset.Of(4)},
	} {
		t.Run(name, func(t *testing.T) {
			var c2 livereport.Collector
			c2.Add(schedwatch.Reading{
				CPUs:  []schedwatch.CPU{cpu(4, schedwatch.Count{Time: time.Second, Switches: 1}), cpu(5), cpu(6)},
				Tasks: []schedwatch.Task{{CPU: 4, Command: "x", CgroupID: 9, Cgroup: "z", Time: time.Second, Switches: 1}},
			})
			r := c2.Report(c.before, c.after)
			rows := 0
			if c.counted.Contains(4) {
				rows = 1
			}
			if !r.CPUs.Equal(c.counted) || !r.Changed.Equal(c.changed) || len(r.Tasks) != rows || (r.Share == nil) != c.counted.IsEmpty() || (r.NoShare == "") == c.counted.IsEmpty() {
				t.Errorf("CPUs %s, changed %s, share %v %q, %d rows; want %s and %s, %d rows", r.CPUs, r.Changed, r.Share, r.NoShare, len(r.Tasks), c.counted, c.changed, rows)
			}
			if c.counted.Contains(4) && name == "pod pool" && (r.Owners[0].Pod != "ran/pool" || r.Owners[0].Name != "") {
				t.Errorf("owner %+v; want the pod", r.Owners[0].Owner)
			}
		})
	}
}

// TestUnwatched checks that a CPU without a reading is not among the CPUs that count.
func TestUnwatched(t *testing.T) {
	r := report(du(), schedwatch.Reading{CPUs: []schedwatch.CPU{cpu(5)}})
	if !r.CPUs.Equal(cpuset.Of(5)) || r.Watched != 10 || !r.Owners[0].CPUs.Equal(cpuset.Of(5)) || r.Probe.Mode != "tracepoint" {
		t.Errorf("report %+v; want CPU 5 alone", r)
	}
}

// TestRunning checks that a task that never switched has a row, and that it counts once.
func TestRunning(t *testing.T) {
	spin := schedwatch.Task{CPU: 4, Command: "spin", CgroupID: 7, Cgroup: "x", Time: 2 * time.Second}
	var c livereport.Collector
	c.Add(schedwatch.Reading{CPUs: []schedwatch.CPU{cpu(4, schedwatch.Count{Time: 2 * time.Second})}, Running: []schedwatch.Task{spin}})
	for range 2 { // a report does not change the rows
		r := c.Report(du(), du())
		if len(r.Tasks) != 1 || r.Tasks[0].Seconds != 2 || r.Tasks[0].Switches != 0 || !r.Kinds[0].IsForeign() || r.More != (livereport.Total{}) {
			t.Fatalf("report of a running task: %+v; want one row with 2 s", r)
		}
	}
	spin.Time, spin.Switches = 3*time.Second, 1
	c.Add(schedwatch.Reading{CPUs: []schedwatch.CPU{cpu(4, schedwatch.Count{Time: 3 * time.Second, Switches: 1})}, Tasks: []schedwatch.Task{spin}})
	if r := c.Report(du(), du()); len(r.Tasks) != 1 || r.Tasks[0].Seconds != 3 {
		t.Errorf("after its switch: %+v; want one row with 3 s", r.Tasks)
	}
}

// TestRemovedCgroups checks that removed cgroups have rows of their own, and that a cgroup that
// was made again has one row.
func TestRemovedCgroups(t *testing.T) {
	task := func(id uint64, cgroup string) schedwatch.Task {
		return schedwatch.Task{CPU: 4, Command: "x", CgroupID: id, Cgroup: cgroup, Time: time.Duration(id), Switches: 1}
	}
	r := report(du(), schedwatch.Reading{
		CPUs:  []schedwatch.CPU{cpu(4, schedwatch.Count{Time: 100, Switches: 4})},
		Tasks: []schedwatch.Task{task(20, ""), task(21, ""), task(22, "a"), task(23, "a")},
	}, schedwatch.Reading{
		CPUs:  []schedwatch.CPU{cpu(4, schedwatch.Count{Time: 106, Switches: 5})},
		Tasks: []schedwatch.Task{task(20, "")},
	})
	var got []string
	for _, row := range r.Tasks {
		got = append(got, fmt.Sprintf("%q %d ×%d", row.Cgroup, row.CgroupID, row.Switches))
	}
	if d := cmp.Diff([]string{`"a" 23 ×2`, `"" 20 ×2`, `"" 21 ×1`}, got); d != "" {
		t.Errorf("rows (-want +got):\n%s", d)
	}
}

// TestManyNames checks that a process that changes its name at each switch cannot make any
// number of rows, and that the report counts the rest.
func TestManyNames(t *testing.T) {
	const names, limit = 10_000, 4096
	var c livereport.Collector
	for i := range names {
		c.Add(schedwatch.Reading{
			CPUs:  []schedwatch.CPU{cpu(4, schedwatch.Count{Time: time.Duration(i+1) * time.Microsecond, Switches: uint64(i + 1)})},
			Tasks: []schedwatch.Task{{CPU: 4, Command: fmt.Sprint("x", i), CgroupID: 7, Cgroup: "x", Time: time.Microsecond, Switches: 1}},
		})
	}
	r := c.Report(du(), du())
	if len(r.Tasks) != limit || r.More.Switches != names-limit || r.Kinds[0].Switches != names {
		t.Errorf("%d rows, more %+v, all %+v; want %d rows and the rest in more", len(r.Tasks), r.More, r.Kinds[0], limit)
	}
	// A long task is not hidden by many short ones before it.
	c.Add(schedwatch.Reading{
		CPUs:  []schedwatch.CPU{cpu(4, schedwatch.Count{Time: 10*time.Second + names*time.Microsecond, Switches: names + 1})},
		Tasks: []schedwatch.Task{{CPU: 4, Command: "long", CgroupID: 7, Cgroup: "x", Time: 10 * time.Second, Switches: 1}},
	})
	if r = c.Report(du(), du()); r.Tasks[0].Command != "long" || len(r.Tasks) != limit || r.More.Switches != names+1-limit {
		t.Errorf("%d rows, the first is %+v, more %+v; want the long task first", len(r.Tasks), r.Tasks[0], r.More)
	}
}

// TestMoreByCPU has a row with more time than the counts of its CPU: a task can end between the reading of counts and
// of rows. The row hides no tasks of another CPU that have no row.
func TestMoreByCPU(t *testing.T) {
	r := report(du(), schedwatch.Reading{
		CPUs:  []schedwatch.CPU{cpu(4, schedwatch.Count{Time: time.Second, Switches: 1}), cpu(5, schedwatch.Count{Time: 2 * time.Second, Switches: 2})},
		Tasks: []schedwatch.Task{{CPU: 4, Command: "x", CgroupID: 7, Cgroup: "x", Time: 3 * time.Second, Switches: 3}},
	})
	if want := (livereport.Total{Seconds: 2, Switches: 2}); r.More != want {
		t.Errorf("more %+v; want %+v of CPU 5", r.More, want)
	}
}

// TestBoundNames checks that only threads that are bound to a CPU lose its number.
func TestBoundNames(t *testing.T) {
	for _, c := range []struct {
		kind       schedwatch.Kind
		name, want string
	}{
		{schedwatch.BoundKernel, "ksoftirqd/4", "ksoftirqd/*"},
		{schedwatch.BoundKernel, "kworker/4:1H-kb", "kworker/*"},
		{schedwatch.BoundKernel, "migration/", "migration/"},
		{schedwatch.BoundKernel, "a/b", "a/b"},
		{schedwatch.BoundKernel, "rcu", "rcu"},
		{schedwatch.OtherKernel, "kworker/4:1", "kworker/4:1"},
		{schedwatch.User, "ksoftirqd/4", "ksoftirqd/4"},
	} {
		r := report(du(), schedwatch.Reading{CPUs: []schedwatch.CPU{cpu(4)}, Tasks: []schedwatch.Task{{CPU: 4, Kind: c.kind, Command: c.name}}})
		if got := r.Tasks[0].Command; got != c.want {
			t.Errorf("command %q of kind %d = %q; want %q", c.name, c.kind, got, c.want)
		}
	}
}

// TestOwners checks that only exclusive places own CPUs, and that the slice of the pod owns a pod pool.
func TestOwners(t *testing.T) {
	o := du()
	sharer := place("ran/cu-0", "cu", "pods/cu/app", cpuset.Range(6, 7))
	sharer.PodPool = true
	o.Places = append(o.Places, sharer)
	want := []schedwatch.Owner{{CPUs: cpuset.Range(4, 5), Cgroups: []string{"pods/du"}}, {CPUs: cpuset.Range(6, 7), Cgroups: []string{"pods/cu"}}}
	if d := cmp.Diff(want, livereport.Owners(o)); d != "" {
		t.Errorf("owners (-want +got):\n%s", d)
	}
}

// TestJSON checks that a report with hostile names is valid JSON, and can be read again.
func TestJSON(t *testing.T) {
	r := report(du(), schedwatch.Reading{CPUs: []schedwatch.CPU{cpu(4)}, Tasks: []schedwatch.Task{{CPU: 4, Command: "\xff\x1b[2J\"\n", CgroupID: 5}}})
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var again livereport.Report
	if err := json.Unmarshal(text, &again); err != nil || again.Tasks[0].Command != "\ufffd\x1b[2J\"\n" {
		t.Errorf("%s: %v; want the command with a replaced byte", text, err)
	}
}
