package liveaudit_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/schedwatch"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// count returns a count with a switch for each second.
func count(seconds int) schedwatch.Count {
	return schedwatch.Count{Time: time.Duration(seconds) * time.Second, Switches: uint64(seconds)}
}

// task returns a user task with a switch for each second.
func task(cpu, pid int, cgroup string, seconds int) schedwatch.Task {
	return schedwatch.Task{CPU: cpu, PID: pid, Command: "x", Cgroup: cgroup, Time: count(seconds).Time, Switches: count(seconds).Switches}
}

// users returns the counts of CPU 4 with user tasks only.
func users(seconds int) []schedwatch.CPU {
	return []schedwatch.CPU{{CPU: 4, Watched: time.Hour, Foreign: [schedwatch.Kinds]schedwatch.Count{count(seconds)}}}
}

// TestLateReports checks that a report that is read after a handover names the owner at its time.
func TestLateReports(t *testing.T) {
	run(t, func(b *bench) {
		b.on()
		b.pass(owner("a", "4-5"))
		b.pass(owner("b", "4-5"), owner("a", "6"))
		late := task(4, 7, "system.slice/x", 1)
		report := func(owner string) (owners []string) {
			late.Owner = owner
			b.tasks <- late
			synctest.Wait()
			for _, f := range b.Findings() {
				owners = append(owners, f.Owner.Pod)
			}
			return owners
		}
		if got := report("an owner of long ago"); len(got) != 0 {
			b.Errorf("report with an unknown owner: findings of %v", got)
		}
		if diff := cmp.Diff([]string{"ran/a"}, report("kubepods/poda/a")); diff != "" {
			b.Errorf("findings after the handover (-want +got):\n%s", diff)
		}
		b.pass(owner("b", "4-5")) // the owner a has ended
		wait(time.Hour)
		if got := report("kubepods/poda/a"); len(got) != 0 {
			b.Errorf("report after an hour: findings of %v", got)
		}
	})
}

// TestOwnTasks checks that the counts have all foreign time, and no time of an owner with a new cgroup.
func TestOwnTasks(t *testing.T) {
	const a, other = "kubepods/poda/a", "system.slice/x"
	type step struct {
		tasks, running []schedwatch.Task
		total          int // the count of the program
		want           float64
	}
	for name, steps := range map[string][]step{
		"an own task runs for several readings": {
			{running: []schedwatch.Task{task(4, 8, a, 5)}, total: 5},
			{running: []schedwatch.Task{task(4, 8, a, 15)}, tasks: []schedwatch.Task{task(4, 7, other, 4)}, total: 19, want: 4},
			{tasks: []schedwatch.Task{task(4, 8, a, 20)}, total: 24, want: 4},
			{tasks: []schedwatch.Task{task(4, 7, other, 3)}, total: 27, want: 7},
		},
		"the watch ends before its switch": {
			{running: []schedwatch.Task{task(4, 8, a, 5)}, total: 5},
			{total: 5},
			{tasks: []schedwatch.Task{task(4, 7, other, 2)}, total: 7, want: 2},
		},
		"another own task follows": {
			{running: []schedwatch.Task{task(4, 8, a, 5)}, total: 5},
			{running: []schedwatch.Task{task(4, 9, a, 2)}, tasks: []schedwatch.Task{task(4, 8, a, 6)}, total: 8},
			{running: []schedwatch.Task{task(4, 9, a, 3)}, total: 9},
		},
		"a row that ended after the counts were read": {
			{tasks: []schedwatch.Task{task(4, 8, a, 6), task(4, 7, other, 1)}, total: 3},
			{total: 7, want: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(b *bench) {
				b.on()
				b.pass(owner("a", "4"))
				for i, s := range steps {
					b.set(schedwatch.Reading{CPUs: users(s.total), Tasks: s.tasks, Running: s.running})
					wait(10 * time.Second)
					if got := b.Result().Foreign[schedwatch.User].Seconds; got != s.want {
						b.Errorf("step %d: %v s of foreign tasks; want %v", i, got, s.want)
					}
				}
			})
		})
	}
}

// TestFormerOwner checks that the time of a task counts if its cgroup became the owner of the CPU only later: it was
// foreign when it ran.
func TestFormerOwner(t *testing.T) {
	for _, fails := range []bool{false, true} {
		run(t, func(b *bench) {
			b.on()
			b.pass(owner("a", "4"))
			wait(10 * time.Second)
			b.pass(owner("b", "4"))
			b.set(schedwatch.Reading{CPUs: users(3), Tasks: []schedwatch.Task{task(4, 7, "kubepods/podb/b", 3)}})
			if fails { // the rows stay in the kernel until the next reading
				kept := b.reading
				b.set(schedwatch.Reading{})
				b.mu.Lock()
				b.fails = errors.New("broken")
				b.mu.Unlock()
				wait(10 * time.Second)
				b.set(kept)
				b.mu.Lock()
				b.fails = nil
				b.mu.Unlock()
			}
			wait(10 * time.Second)
			if r := b.Result(); r.Foreign[schedwatch.User].Seconds != 3 || len(b.Findings()) != 0 {
				b.Errorf("fails %t: %+v, findings %+v; want three seconds, and no finding of either owner", fails, r, b.Findings())
			}
		})
	}
}

// TestFindingChangesRarely checks that a tenant that starts many tasks changes the finding of an owner once in ten
// minutes at most: its text goes to logs and to the cluster.
func TestFindingChangesRarely(t *testing.T) {
	run(t, func(b *bench) {
		b.on()
		b.pass(owner("a", "4-5"))
		texts := make(map[string]bool)
		for i := range 6 * 60 { // an hour
			b.tasks <- schedwatch.Task{CPU: 4 + i%2, PID: 1000 + i, Command: fmt.Sprint("x", i), Cgroup: "system.slice/x"}
			wait(10 * time.Second)
			found := b.Findings()
			if len(found) != 1 {
				b.Fatalf("findings %+v; want one", found)
			}
			texts[found[0].CPUs.String()+": "+fmt.Sprint(found[0].Task)] = true
		}
		if len(texts) > 7 || b.wakes.Load() != 1 {
			b.Errorf("%d different findings, %d wakes; want at most 7 in an hour, and one wake", len(texts), b.wakes.Load())
		}
		if f := b.Findings()[0]; !f.CPUs.Equal(cpuset.Range(4, 5)) {
			b.Errorf("finding on CPUs %s; want both", f.CPUs)
		}
	})
}
