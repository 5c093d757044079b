package liveaudit

import (
	"time"

	"github.com/cpupoold/cpupoold/internal/node/schedwatch"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// kinds holds counts by [schedwatch.Kind].
type kinds [schedwatch.Kinds]schedwatch.Count

// cpuCounts holds the counts of a CPU since the program was loaded.
type cpuCounts struct {
	watched  time.Duration
	switches uint64
	shown    kinds           // foreign tasks in the sums
	own      kinds           // tasks that the program took for foreign ones
	running  schedwatch.Task // such a task that had no switch until the last reading; its time is not in own
}

// counts adds up the readings of all programs since the daemon's start.
type counts struct {
	watched                      time.Duration
	switches, lost, runs, failed uint64
	ran                          time.Duration
	foreign                      kinds
	program                      string // btf or tracepoint

	cpus     map[int]*cpuCounts
	previous schedwatch.Reading // without CPUs and tasks
}

// forget is called for a new program, which counts from zero.
func (c *counts) forget() {
	c.cpus, c.previous = make(map[int]*cpuCounts), schedwatch.Reading{}
}

func (c *counts) cpu(n int) *cpuCounts {
	if c.cpus[n] == nil {
		c.cpus[n] = &cpuCounts{}
	}
	return c.cpus[n]
}

// add adds a reading. isOwn selects the tasks that belong to the owner of their CPU, and isOwnNow does so for tasks
// that still run. The program took them for foreign ones, because the cgroup of the owner was made again.
func (c *counts) add(r schedwatch.Reading, isOwn, isOwnNow func(*schedwatch.Task) bool) {
	var ended [schedwatch.Kinds]map[int]time.Duration // time of own tasks with a row, by CPU
	for i := range ended {
		ended[i] = make(map[int]time.Duration)
	}
	for i := range r.Tasks {
		if t := &r.Tasks[i]; isOwn(t) {
			own := &c.cpu(t.CPU).own[t.Kind]
			*own = own.Plus(schedwatch.Count{Time: t.Time, Switches: t.Switches})
			ended[t.Kind][t.CPU] += t.Time
		}
	}
	running := make(map[int]schedwatch.Task)
	for i := range r.Running {
		if t := &r.Running[i]; isOwnNow(t) {
			running[t.CPU] = *t
		}
	}
	for i := range r.CPUs {
		now := &r.CPUs[i]
		at := c.cpu(now.CPU)
		c.watched += now.Watched - at.watched
		c.switches += now.Switches - min(at.switches, now.Switches)
		at.watched, at.switches = now.Watched, now.Switches
		at.run(running[now.CPU], func(k schedwatch.Kind) time.Duration { return ended[k][now.CPU] })
		for k := range c.foreign {
			own := at.own[k]
			if at.running.Kind == schedwatch.Kind(k) { //nolint:gosec // less than Kinds
				own.Time += at.running.Time
			}
			more := now.Foreign[k].Beyond(own).Beyond(at.shown[k])
			at.shown[k] = at.shown[k].Plus(more)
			c.foreign[k] = c.foreign[k].Plus(more)
		}
	}
	c.lost += r.Lost - min(c.previous.Lost, r.Lost)
	c.runs += r.Runs - min(c.previous.Runs, r.Runs)
	c.ran += max(0, r.RunTime-c.previous.RunTime)
	c.previous = schedwatch.Reading{Lost: r.Lost, Runs: r.Runs, RunTime: r.RunTime}
	c.program = "tracepoint"
	if r.BTF {
		c.program = "btf"
	}
}

// run notes the own task that runs now. If another one ran before, it has a row now, or the watch ended before
// its switch. Then the program counts its time until the last reading, and no row has it.
func (c *cpuCounts) run(now schedwatch.Task, ended func(schedwatch.Kind) time.Duration) {
	if was := c.running; now.PID != was.PID || now.Time < was.Time {
		c.own[was.Kind] = c.own[was.Kind].Plus(schedwatch.Count{Time: max(0, was.Time-ended(was.Kind))})
	}
	c.running = now
}

func (c *counts) shown(reports uint64, cpus cpuset.Set) *telemetry.LiveAudit {
	var foreign [schedwatch.Kinds]telemetry.LiveCount
	for k, f := range c.foreign {
		foreign[k] = telemetry.LiveCount{Seconds: f.Time.Seconds(), Switches: f.Switches}
	}
	return &telemetry.LiveAudit{
		Program: c.program, CPUs: cpus, Watched: c.watched.Seconds(), Switches: c.switches, Foreign: foreign,
		Reports: reports, Lost: c.lost, Failed: c.failed, Runs: c.runs, RunSeconds: c.ran.Seconds(),
	}
}
