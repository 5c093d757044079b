package daemon

import (
	"fmt"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// codeContested is the code of cgroups over which the daemon and somebody else fight.
const codeContested pools.Code = "Contested"

// Two who write different values in turn move a container's threads to and fro and
// bring neither anything: after maxRepairs in contestTime the daemon leaves the property
// alone, from firstTruce on and twice as long each time, up to lastTruce. Only where
// somebody is on another's exclusive CPUs it goes on, every trespassPause. The cgroup's
// other properties are repaired as ever, but where systemd would put the contested one
// back with them, or the runtime.
const (
	maxRepairs    = 5
	contestTime   = time.Minute
	firstTruce    = time.Minute
	lastTruce     = 10 * time.Minute
	trespassPause = time.Second
)

// contest is a property that somebody else writes, too.
type contest struct {
	deviation
	cause string
	at    []time.Time // of the writes, the latest maxRepairs+1
	truce time.Duration
	until time.Time // the end of the truce
}

// contest notes a foreign write, and begins a truce when it is one too many.
func (b *bench) contest(k recordKey, d deviation, now time.Time) {
	c := b.contests[k.path][k.property]
	if c == nil {
		if b.contests[k.path] == nil {
			b.contests[k.path] = make(map[string]*contest)
		}
		c = &contest{}
		b.contests[k.path][k.property] = c
	}
	c.deviation = d
	if c.at = append(c.at, now); len(c.at) > maxRepairs+1 {
		c.at = c.at[1:]
	}
	again := c.truce > 0 && now.Sub(c.until) < contestTime
	if again || len(c.at) > maxRepairs && now.Sub(c.at[0]) < contestTime {
		c.truce = min(max(2*c.truce, firstTruce), lastTruce)
		c.until = now.Add(c.truce)
	}
}

// blame notes whose the writes are.
func (b *bench) blame(k recordKey, cause string) {
	if c := b.contests[k.path][k.property]; c != nil {
		c.cause = cause
	}
}

// over says that nobody contests any more.
func (c *contest) over(now time.Time) bool {
	return now.Sub(c.at[len(c.at)-1]) > contestTime && now.Sub(c.until) > contestTime
}

// truces are the properties of a cgroup that are to be left alone because somebody
// else writes them; trespasses says that it runs on CPUs that another has for himself.
func (b *bench) truces(p cgroup.Path, trespasses func(cgroup.Path) bool, now time.Time) (left []string) {
	for property, c := range b.contests[p] {
		if !now.Before(c.until) {
			continue
		}
		if property == cgroup.FileCPUs && now.Sub(c.at[len(c.at)-1]) >= trespassPause && trespasses(p) {
			continue
		}
		left = append(left, property)
	}
	return left
}

// nextContest tells when cgroups that are contested are due again.
func (b *bench) nextContest(earlier func(time.Time), now time.Time) {
	for p, of := range b.contests {
		for property, c := range of {
			if c.over(now) {
				delete(of, property)
				continue
			}
			if now.Before(c.until) {
				earlier(c.at[len(c.at)-1].Add(trespassPause))
				earlier(c.until)
			}
			if c.truce > 0 {
				earlier(c.until.Add(contestTime + time.Second)) // it may be over then
			}
		}
		if len(of) == 0 {
			delete(b.contests, p)
		}
	}
}

// trespasses says that a cgroup runs on CPUs that somebody else is to have for
// himself, be it a container that does not exist yet.
func (l *loop) trespasses(p cgroup.Path) bool {
	i := slices.IndexFunc(l.status.targets, func(t cgroup.Target) bool { return t.Path == p })
	if i < 0 || l.status.targets[i].CPUs.IsEmpty() {
		return false
	}
	others := ownedBy(l.status.plan)
	if t := l.status.targets[i]; t.Around {
		others = others.Difference(t.CPUs) // of units in it
	} else if t.Exclusive {
		others = others.Difference(assigned(l.assignments, l.ownerOf(t)))
	}
	return l.tree.current[p].Effective.Overlaps(others)
}

// contestProblems are the cgroups that are left to somebody else for now.
func (l *loop) contestProblems(now time.Time) []pools.Problem {
	var all []pools.Problem
	for path, of := range l.bench.contests {
		for property, c := range of {
			if c.truce == 0 || c.over(now) {
				continue
			}
			p := pools.Problem{Reason: pools.Reason{Code: codeContested, Text: fmt.Sprintf(
				"%s of %s: somebody else (%s) writes %q whenever it has %q; it is left alone until %s. Stop one of the two",
				property, path, c.cause, c.is, c.was, c.until.Format(time.RFC3339))}}
			l.nameOwner(&p, path)
			all = append(all, p)
		}
	}
	return all
}

// nameOwner adds whose cgroup a problem is about, if that is a container's.
func (l *loop) nameOwner(p *pools.Problem, at cgroup.Path) {
	e := l.model.containers[l.model.container(at)]
	if e == nil {
		return
	}
	p.Container = e.container.Name
	if pod := l.model.pods[e.container.PodID]; pod != nil {
		p.PodUID, p.Pod = pod.uid, pod.name()
	}
}
