package liveaudit

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/audit"
	"github.com/cpupoold/cpupoold/internal/node/schedwatch"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// findingTTL is the time for which a finding stays after the last foreign task.
const findingTTL = 10 * time.Minute

// Finding holds the foreign user tasks on the CPUs of one owner.
type Finding struct {
	// Owner is a place with the CPU. Its Name is empty if the owner is a pod.
	Owner audit.Place
	// Task is the last foreign task.
	Task schedwatch.Task
	Last time.Time
}

// Findings returns the findings of the last ten minutes, by owner. Their number is at most the number
// of owners in that time.
func (a *Audit) Findings() []Finding {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.expire()
	var all []Finding
	for _, key := range slices.Sorted(maps.Keys(a.findings)) {
		all = append(all, *a.findings[key])
	}
	return all
}

// expire removes the findings that are over, and reports whether a finding was over. a.mu is held.
func (a *Audit) expire() bool {
	before := len(a.findings)
	maps.DeleteFunc(a.findings, func(_ string, f *Finding) bool { return a.now().Sub(f.Last) >= findingTTL })
	return len(a.findings) < before
}

// note adds a foreign user task to the findings. It reports whether its owner had no finding before. It omits a
// task in a cgroup of the owner: a unit was started again, and its cgroup has the same path. It also
// omits all tasks after the owner has ended, before the event loop knows that. a.mu is held.
func (a *Audit) note(t schedwatch.Task) bool {
	h := a.held[t.CPU]
	if h == nil || t.Kind != schedwatch.User {
		return false
	}
	if h.owns(t.Cgroup) {
		a.again(h)
		return false
	}
	if !slices.ContainsFunc(h.places, a.exists) {
		return false
	}
	f := a.findings[h.key]
	isNew := f == nil || a.now().Sub(f.Last) >= findingTTL
	a.findings[h.key] = &Finding{Owner: h.place, Task: t, Last: a.now()}
	return isNew
}

// again makes the program look up the cgroups of an owner again. a.mu is held.
func (a *Audit) again(h *holder) {
	held := maps.Clone(a.held)
	a.drop(func(_ int, other *holder) bool { return other.key == h.key })
	a.held = held
	a.own()
}

// amount is CPU time and a number of task switches.
type amount struct {
	time     time.Duration
	switches uint64
}

// counts adds up the readings of all programs since the daemon's start.
type counts struct {
	watched                      time.Duration
	switches, lost, runs, failed uint64
	ran                          time.Duration
	foreign                      [schedwatch.Kinds]amount
	program                      string // btf or tracepoint

	before   map[int]schedwatch.CPU // the previous reading of the program
	previous schedwatch.Reading     // likewise, without CPUs and tasks
	own      map[int][schedwatch.Kinds]amount
}

func newCounts() *counts {
	c := &counts{}
	c.forget()
	return c
}

// forget is called for a new program, which counts from zero.
func (c *counts) forget() {
	c.before, c.own, c.previous = make(map[int]schedwatch.CPU), make(map[int][schedwatch.Kinds]amount), schedwatch.Reading{}
}

// omit subtracts a task that the program took for a foreign one from the next reading.
func (c *counts) omit(t schedwatch.Task) {
	kinds := c.own[t.CPU]
	kinds[t.Kind].time += t.Time
	kinds[t.Kind].switches += t.Switches
	c.own[t.CPU] = kinds
}

// add adds the difference to the previous reading.
func (c *counts) add(r schedwatch.Reading) {
	for _, now := range r.CPUs {
		was, own := c.before[now.CPU], c.own[now.CPU]
		c.before[now.CPU] = now
		c.watched += now.Watched - was.Watched
		c.switches += now.Switches - was.Switches
		for k := range c.foreign {
			c.foreign[k].time += max(0, now.Foreign[k].Time-was.Foreign[k].Time-own[k].time)
			switches := now.Foreign[k].Switches - was.Foreign[k].Switches
			c.foreign[k].switches += switches - min(own[k].switches, switches)
		}
	}
	clear(c.own)
	c.lost += r.Lost - min(c.previous.Lost, r.Lost)
	c.runs += r.Runs - min(c.previous.Runs, r.Runs)
	c.ran += max(0, r.RunTime-c.previous.RunTime)
	c.previous = schedwatch.Reading{Lost: r.Lost, Runs: r.Runs, RunTime: r.RunTime}
	c.program = "tracepoint"
	if r.BTF {
		c.program = "btf"
	}
}

// shown returns the counts for metrics and status.
func (c *counts) shown(reports uint64, cpus cpuset.Set) *telemetry.LiveAudit {
	var foreign [schedwatch.Kinds]telemetry.LiveCount
	for k, f := range c.foreign {
		foreign[k] = telemetry.LiveCount{Seconds: f.time.Seconds(), Switches: f.switches}
	}
	return &telemetry.LiveAudit{
		Program: c.program, CPUs: cpus, Watched: c.watched.Seconds(), Switches: c.switches, Foreign: foreign,
		Reports: reports, Lost: c.lost, Failed: c.failed, Runs: c.runs, RunSeconds: c.ran.Seconds(),
	}
}

// Describe returns a task in words. The author of the task chooses its command and its cgroup.
func Describe(t schedwatch.Task) string {
	const longest = 200
	at := t.Cgroup
	switch {
	case at != "":
	case t.CgroupID == 1:
		at = "/"
	default:
		at = "(removed)"
	}
	if len(at) > longest {
		at = "…" + strings.ToValidUTF8(at[len(at)-longest:], "")
	}
	return strconv.Quote(t.Command) + ", PID " + strconv.Itoa(t.PID) + ", cgroup " + strconv.Quote(at)
}
