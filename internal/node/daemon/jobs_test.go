package daemon

import (
	"context"
	"sync"

	"github.com/cpupoold/cpupoold/internal/node/actor"
)

// jobs counts the jobs of the workers of a loop that have not ended, or whose results
// have not been posted.
type jobs struct {
	mu    sync.Mutex
	open  map[actor.Workers[event]]int
	begun int // all jobs so far
	loop  *Loop
}

// startWorkers gives a loop workers whose jobs are counted. Wait returns when all jobs
// have ended; the context must have ended.
func startWorkers(ctx context.Context, l *Loop) (j *jobs, wait func()) {
	j = &jobs{open: make(map[actor.Workers[event]]int), loop: l}
	l.workers, wait = actor.NewWorkerSets(ctx, l.box.Post)
	for _, w := range j.sets() {
		*w = &countedWorkers{*w, j}
	}
	return j, wait
}

func (j *jobs) sets() []*actor.Workers[event] {
	w := &j.loop.workers
	return []*actor.Workers[event]{&w.Queries, &w.Updates, &w.Disk}
}

func (j *jobs) add(w actor.Workers[event], n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.open[w] += n
	j.begun += max(n, 0)
}

// queries returns the number of open questions.
func (j *jobs) queries() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.open[j.loop.workers.Queries]
}

// idle reports whether no job is open.
func (j *jobs) idle() bool {
	_, idle := j.state()
	return idle
}

// state returns the number of all jobs so far, and whether none is open.
func (j *jobs) state() (begun int, idle bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, n := range j.open {
		if n > 0 {
			return j.begun, false
		}
	}
	return j.begun, true
}

// countedWorkers are workers whose jobs are counted until their results are posted.
type countedWorkers struct {
	actor.Workers[event]
	jobs *jobs
}

func (c *countedWorkers) Submit(key string, j actor.Job[event]) {
	c.jobs.add(c, 1)
	c.Workers.Submit(key, func(ctx context.Context) event {
		defer c.jobs.add(c, -1)
		if e := j(ctx); e != nil {
			c.jobs.loop.box.Post(e)
		}
		return nil
	})
}
