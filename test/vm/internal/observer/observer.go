// Package observer watches the CPUs of all containers of a node from outside of the daemon. It
// reads effective cpusets and the affinities of threads in a loop, as fast as it can. It shares
// no code with the daemon and with its tests' checks. A test reports to it which containers
// own CPUs, and each disturbance of the node. The observer returns how long a thread of another
// container could run on exclusive CPUs, with the cause.
package observer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Observer reads the cgroups of all pods until Stop. Its methods can be called at any time.
type Observer struct {
	began time.Time
	stop  chan struct{}
	ended chan struct{}

	mu       sync.Mutex // held during a round: a test's reports are in force from the next one on
	tree     *tree
	detector detector
	timeline timeline
	waiting  []interval    // ended, of intruders that are not identified yet
	present  time.Duration // last call of Present
	report   Report
	err      error
}

// Start returns an observer of the pods' cgroups below root, such as
// /sys/fs/cgroup/kubepods.slice.
func Start(root string) (*Observer, error) {
	t, err := openTree(root)
	if err != nil {
		return nil, err
	}
	o := &Observer{
		began: time.Now(), stop: make(chan struct{}), ended: make(chan struct{}), tree: t,
		detector: detector{containers: make(map[string]*container)},
		report:   Report{Overlaps: make(map[string]Overlaps)},
	}
	go o.run()
	return o, nil
}

// run makes rounds until Stop or an error.
func (o *Observer) run() {
	defer close(o.ended)
	for {
		select {
		case <-o.stop:
			return
		default:
		}
		if err := o.round(); err != nil {
			return
		}
	}
}

// round reads everything once.
func (o *Observer) round() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	begin := time.Since(o.began)
	found, err := o.read()
	if err != nil {
		o.err = err
		return err
	}
	end := time.Since(o.began)
	o.waiting = append(o.waiting, o.timeline.note(begin, end, found)...)
	o.settle(false)
	o.report.Rounds++
	o.report.Lasted = end
	o.report.MaxRound = max(o.report.MaxRound, end-begin)
	return nil
}

// read returns the overlaps of one round.
func (o *Observer) read() (map[subject]interval, error) {
	before, err := o.tree.all()
	if err != nil {
		return nil, err
	}
	views, err := o.tree.read(o.detector.owns) // owners first, see confirm
	if err != nil {
		return nil, err
	}
	after, err := o.tree.all()
	if err != nil {
		return nil, err
	}
	found := o.detector.find(views, before, after)
	again := make(map[string]view)
	for s := range found {
		if again[s.owner], err = o.tree.again(s.owner); err != nil {
			return nil, err
		}
	}
	o.detector.confirm(found, again)
	for s, i := range found {
		if s.intruder == "" {
			continue
		}
		names := o.tree.programs(s.intruder, i.cpus)
		i.executed = hasProgram(names)
		i.ownerRuns = hasProgram(o.tree.programs(s.owner, ^cpus(0)))
		i.detail += fmt.Sprintf(", its threads there are %q", names)
		found[s] = i
	}
	return found, nil
}

// hasProgram reports whether a thread runs the program of a container.
func hasProgram(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return !isRuntime(name) })
}

// isRuntime reports whether a thread has the name of an OCI runtime: "runc:[2:INIT]", "crun",
// or "6", because runc 1.5.2 executes itself as a file descriptor below /proc/self/fd.
func isRuntime(name string) bool {
	_, err := strconv.Atoi(name)
	return err == nil || strings.HasPrefix(name, "runc") || strings.HasPrefix(name, "crun")
}

// settle counts the intervals that have ended. Those with an unknown intruder wait, unless
// this is the end.
func (o *Observer) settle(last bool) {
	var kept []interval
	for _, i := range o.waiting {
		cause, known := o.detector.cause(i)
		if !known && !last {
			kept = append(kept, i)
			continue
		}
		lasted := i.end - i.begin
		o.report.add(cause, Overlaps{Count: 1, Longest: lasted, Example: o.describe(i)})
	}
	o.waiting = kept
}

// describe returns one interval as text.
func (o *Observer) describe(i interval) string {
	from := o.began.Add(i.begin).UTC().Format("15:04:05.000")
	text := fmt.Sprintf("%s on CPUs %s for %v from %s on", i.owner, i.cpus, (i.end - i.begin).Round(time.Microsecond), from)
	if i.intruder == "" {
		return "owner outside of its CPUs: " + text
	}
	kind := o.detector.get(i.intruder).kind
	if kind == "" {
		kind = "unidentified"
	}
	return fmt.Sprintf("%s container %s (placed before: %t, %s) on CPUs of owner %s", kind, i.intruder, !i.fresh, i.detail, text)
}

// now is called with the lock.
func (o *Observer) now() time.Duration { return time.Since(o.began) }

// with calls a function between two rounds.
func (o *Observer) with(do func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	do()
}

// Identify records the kind of a scope's container, and the number of exclusive CPUs that it
// requests, after the runtime has created it. A pause container is running then. At the time
// asked, the test asked the runtime to create the container. The runtime does not ask the daemon about
// pause containers.
func (o *Observer) Identify(scope, kind string, count int, asked time.Time) {
	o.with(func() {
		c := o.detector.get(scope)
		if c.kind, c.count = kind, count; kind != Pause {
			c.asked = asked.Sub(o.began)
		}
	})
}

// Ends reports that a container is about to be stopped. It owns no CPUs from then on.
func (o *Observer) Ends(scope string) { o.with(func() { o.detector.get(scope).ending = true }) }

// Writes reports that the test is about to write to the cpuset of a container.
func (o *Observer) Writes(scope string) { o.with(func() { o.detector.get(scope).written = o.now() }) }

// Reload reports that do reloads systemd. systemd can write to cpusets for some seconds afterwards.
func (o *Observer) Reload(do func()) {
	var i int
	o.with(func() {
		i = len(o.detector.reloads)
		o.detector.reloads = append(o.detector.reloads, window{o.now(), never})
	})
	do()
	o.with(func() { o.detector.reloads[i].to = o.now() + writeWindow })
}

// Absent reports that no daemon replies to the runtime from now on.
func (o *Observer) Absent() {
	o.with(func() { o.detector.absent = append(o.detector.absent, window{o.now(), never}) })
}

// Present reports that a daemon replies again.
func (o *Observer) Present() {
	o.with(func() {
		o.present = o.now()
		for i := range o.detector.absent {
			o.detector.absent[i].to = min(o.detector.absent[i].to, o.now())
		}
	})
}

// Open returns the overlaps that have not ended, as text. It leaves out those that began after the last
// call of Present.
func (o *Observer) Open() (all []string) {
	o.with(func() {
		for _, i := range o.timeline.open {
			now := *i
			now.end = o.now()
			if o.present == 0 || now.begin <= o.present {
				all = append(all, o.describe(now))
			}
		}
	})
	return all
}

// Report returns the overlaps that have ended, and the rate.
func (o *Observer) Report() (r Report, err error) {
	o.with(func() { r, err = o.report.Plus(Report{}), o.err })
	return r, err
}

// Stop ends the observer and returns its whole report. Overlaps end with it.
func (o *Observer) Stop() (Report, error) {
	close(o.stop)
	<-o.ended
	o.with(func() {
		o.waiting = append(o.waiting, o.timeline.note(o.now(), o.now(), nil)...)
		o.settle(true)
		o.tree.close()
	})
	return o.Report()
}
