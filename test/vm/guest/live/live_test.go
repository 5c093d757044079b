//go:build guest

package live_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/schedwatch"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/test/vm/internal/switches"
)

// exclusive is the CPU of the owner in the tests with one owner.
const exclusive = 3

// watched watches the CPU of the cgroup "owner" while f runs. It compares the counts with ftrace and returns them.
func (n *node) watched(f func()) (schedwatch.Reading, schedwatch.CPU, []schedwatch.Task) {
	n.Helper()
	p := n.open()
	reports := collect(p)
	rec := n.record(cpuset.Of(exclusive))
	w := window{owner: "owner"}
	w.begin[0] = n.now()
	n.own(p, schedwatch.Owner{CPUs: cpuset.Of(exclusive), Cgroups: []string{"owner"}})
	w.begin[1] = n.now()
	f()
	w.end[0] = n.now()
	p.Release(cpuset.Of(exclusive))
	w.end[1] = n.now()
	owners := map[string]map[int]bool{"owner": n.threads("owner")}
	rec.end()
	r, byCPU := n.reading(p)
	got := byCPU[exclusive]
	if least, most := w.end[0]-w.begin[1], w.end[1]-w.begin[0]; got.Watched < least || got.Watched > most {
		n.Errorf("watched for %v; want %v to %v", got.Watched, least, most)
	}
	rec.compare(got, rec.foreign(exclusive, []window{w}, owners))
	if err := p.Close(); err != nil {
		n.Error(err)
	}
	return r, got, <-reports
}

// collect returns all reports after the program is closed.
func collect(p *schedwatch.Program) <-chan []schedwatch.Task {
	all := make(chan []schedwatch.Task, 1)
	go func() {
		var tasks []schedwatch.Task
		for {
			t, err := p.Next()
			if err != nil {
				all <- tasks
				return
			}
			tasks = append(tasks, t)
		}
	}()
	return all
}

// TestSpinner checks that a foreign task that spins for 5 ms is counted and reported, and that it cannot run in a partition.
func TestSpinner(t *testing.T) {
	t.Run("cpuset", func(t *testing.T) {
		n := newNode(t)
		n.group("owner", cpuset.Of(exclusive))
		p := n.start(spinner, "stray")
		var tid int
		r, cpu, reports := n.watched(func() {
			answer := p.do(exclusive, 5*time.Millisecond)
			var err error
			if tid, err = strconv.Atoi(strings.TrimPrefix(answer, "spun ")); err != nil {
				t.Fatal(answer)
			}
		})
		if c := cpu.Foreign[schedwatch.User]; c.Switches == 0 || c.Time < 5*time.Millisecond {
			t.Errorf("foreign user tasks: %+v; want at least 5ms", c)
		}
		is := func(task schedwatch.Task) bool {
			return task.CPU == exclusive && task.Kind == schedwatch.User && task.PID == tid && task.TGID == p.cmd.Process.Pid &&
				task.Command == spinner && task.Cgroup == "stray"
		}
		if len(r.Tasks) == 0 || len(users(r, "stray")) > 0 {
			t.Errorf("foreign user tasks: %+v; want the spinner alone", r.Tasks)
		}
		for where, tasks := range map[string][]schedwatch.Task{"rows": r.Tasks, "reports": reports} {
			found := 0
			for _, task := range tasks {
				if is(task) {
					found++
				}
			}
			if found != 1 {
				t.Errorf("%s: spinner, thread %d, %d times; want once: %+v", where, tid, found, tasks)
			}
		}
	})
	t.Run("partition", func(t *testing.T) {
		n := newNode(t)
		n.group("owner", cpuset.Of(exclusive))
		n.partition("owner", "root")
		p := n.start(spinner, "stray")
		r, cpu, _ := n.watched(func() {
			if answer := p.do(exclusive, 5*time.Millisecond); answer != "refused: invalid argument" {
				t.Errorf("spinner: %s; want a refusal", answer)
			}
		})
		if cpu.Foreign[schedwatch.User].Switches > 0 {
			t.Errorf("foreign user tasks in a partition: %+v", users(r, ""))
		}
	})
}

// partition makes the cgroup a partition until the end of the test.
func (n *node) partition(group, kind string) {
	n.Helper()
	file := group + "/cpuset.cpus.partition"
	n.write(file, kind)
	n.Cleanup(func() { n.write(file, "member") })
	if got, err := os.ReadFile(filepath.Join(mount, file)); err != nil || strings.TrimSpace(string(got)) != kind {
		n.Fatalf("partition of %s = %q, %v; want %s", group, got, err, kind)
	}
}

// TestOwner checks that 20,000 switches of an owner cause no report.
func TestOwner(t *testing.T) {
	n := newNode(t)
	n.group("owner", cpuset.Of(exclusive))
	p := n.start(pair, "owner")
	const rounds = 10_000
	r, cpu, reports := n.watched(func() {
		if answer := p.do(rounds); answer != "done" {
			t.Fatal(answer)
		}
	})
	if cpu.Switches < 2*rounds {
		t.Errorf("%d switches; want at least %d", cpu.Switches, 2*rounds)
	}
	if cpu.Foreign[schedwatch.User].Switches > 0 || len(users(r, "-")) > 0 {
		t.Errorf("false reports: %+v", users(r, "-"))
	}
	for _, task := range reports {
		if task.Kind == schedwatch.User {
			t.Errorf("false report: %+v", task)
		}
	}
}

// TestMinute compares a minute with ftrace: the owner spins and sleeps, and a foreign task spins again and again.
func TestMinute(t *testing.T) {
	n := newNode(t)
	n.group("owner", cpuset.Of(exclusive))
	n.start(busy, "owner")
	p := n.start(spinner, "stray")
	spins := 0
	_, cpu, _ := n.watched(func() {
		for end := n.now() + *minute; n.now() < end; spins++ {
			if answer := p.do(exclusive, time.Duration(1+spins%7)*time.Millisecond); !strings.HasPrefix(answer, "spun ") {
				t.Fatal(answer)
			}
		}
	})
	if c := cpu.Foreign[schedwatch.User]; c.Switches < uint64(spins) || c.Time < time.Duration(spins)*time.Millisecond {
		t.Errorf("foreign user tasks: %+v; want %d switches at least", c, spins)
	}
	t.Logf("%d spins", spins)
}

// TestMissingCgroup checks that CPUs of an owner without a cgroup are not watched.
func TestMissingCgroup(t *testing.T) {
	n := newNode(t)
	p := n.open()
	watched, err := p.Own([]schedwatch.Owner{{CPUs: cpuset.Of(exclusive), Cgroups: []string{"gone"}}})
	if !watched.IsEmpty() || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Own of a missing cgroup = %s, %v; want none, ErrNotExist", watched, err)
	}
}

// TestRecorder checks the record itself with a known number of switches.
func TestRecorder(t *testing.T) {
	n := newNode(t)
	n.group("owner", cpuset.Of(exclusive))
	p := n.start(pair, "owner")
	begin := n.now()
	rec := n.record(cpuset.Of(exclusive))
	const rounds = 1000
	if answer := p.do(rounds); answer != "done" {
		t.Fatal(answer)
	}
	rec.end()
	end := n.now()
	mine, runs := n.threads("owner"), 0
	for _, run := range switches.Runs(rec.all[exclusive]) {
		if mine[run.TID] {
			runs++
		}
		if run.From >= run.To || run.To > end || run.From < begin {
			t.Errorf("run %+v outside of the record from %v to %v", run, begin, end)
		}
	}
	if runs < 2*rounds {
		t.Errorf("%d runs of the threads; want at least %d", runs, 2*rounds)
	}
}
